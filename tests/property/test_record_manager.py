"""``TwinvecRecordManager`` gives the answers of LangChain's own record manager, alone and in ``index``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import InMemoryRecordManager, index
from langchain_core.vectorstores import InMemoryVectorStore

from langchain_twinvec import TwinvecRecordManager, TwinvecVectorStore, record_manager

NAMESPACES = ["docs", "", "Größe/日本", "docs/a"]
KEYS = ["k", "K", " ", "\0", "a\nb", "é", "e\u0301", "日本語", "\U0001f600", "0", "null", "k" * 300]
MISSING = ["", "gone", "g" * 300]
GROUPS = [None, "", "a", "A", "é", "e\u0301", "2024-05-01", "5", 5, "long " * 60]

KEY_LISTS = st.lists(st.sampled_from(KEYS + MISSING), max_size=6)
MOMENT = st.one_of(st.none(), st.integers(1, 80).map(float))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.lists(st.tuples(st.sampled_from(KEYS + MISSING), st.sampled_from(GROUPS)))),
        st.tuples(st.just("refresh"), KEY_LISTS),
        st.tuples(st.just("exists"), KEY_LISTS),
        st.tuples(st.just("delete"), KEY_LISTS),
        st.tuples(
            st.just("list"),
            st.fixed_dictionaries(
                {
                    "before": MOMENT,
                    "after": MOMENT,
                    "group_ids": st.one_of(st.none(), st.lists(st.sampled_from(GROUPS[1:]), min_size=1, max_size=4)),
                }
            ),
        ),
        st.tuples(st.just("limited"), st.integers(0, 8)),
    ),
    max_size=12,
)
_number = count()


class OwnRecordManager(InMemoryRecordManager):
    """LangChain's own record manager with a clock; an update without groups keeps the groups, as documented."""

    def __init__(self, namespace: str, clock: Any) -> None:
        super().__init__(namespace)
        self.get_time = clock.time

    def refresh(self, keys: list[str]) -> None:
        self.update(keys, group_ids=[self.records.get(key, {}).get("group_id") for key in keys])


class Clock:
    """A clock that advances by ``step`` seconds whenever it is read."""

    def __init__(self, step: float) -> None:
        self.now = 1.0
        self._step = step

    def time(self) -> float:
        self.now += self._step
        return self.now


@contextmanager
def clocked(step: float = 0.0) -> Iterator[Clock]:
    """Let the record managers read a ``Clock``."""
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(step)
        patch.setattr(record_manager, "time", SimpleNamespace(time=clock.time))
        yield clock


@pytest.fixture(scope="module")
def store() -> Iterator[TwinvecVectorStore]:
    opened = TwinvecVectorStore(DeterministicFakeEmbedding(size=16))
    opened.add_texts([f"text {row}" for row in range(len(KEYS))], ids=KEYS)
    yield opened
    opened.close()


@pytest.mark.slow
@settings(max_examples=100, deadline=None, phases=[Phase.generate])  # a smaller case takes minutes to find
@given(steps=st.lists(st.tuples(st.sampled_from(NAMESPACES), STEPS), min_size=1, max_size=3))
def test_the_answers_are_those_of_the_record_manager_in_memory(store, steps):
    run = next(_number)
    with clocked() as clock:
        both = {
            each: (TwinvecRecordManager(store, f"{each}/{run}"), OwnRecordManager(each, clock)) for each in NAMESPACES
        }
        for namespace, calls in steps:
            for name, argument in calls:
                clock.now += 1.0
                compare(*both[namespace], name, argument, clock.now)


def compare(ours: TwinvecRecordManager, own: OwnRecordManager, name: str, argument: Any, now: float) -> None:
    if name == "update":
        keys, groups = [key for key, _ in argument], [group for _, group in argument]
        ours.update(keys, group_ids=groups, time_at_least=now)
        own.update(keys, group_ids=groups, time_at_least=now)
    elif name == "refresh":
        ours.update(argument, time_at_least=now)
        own.refresh(argument)
    elif name == "exists":
        assert ours.exists(argument) == [
            there and key in KEYS for key, there in zip(argument, own.exists(argument), strict=True)
        ]
        for key in argument:
            if key in MISSING:
                own.records.pop(key, None)
    elif name == "delete":
        ours.delete_keys(argument)
        own.delete_keys(argument)
    elif name == "list":
        assert sorted(ours.list_keys(**argument)) == sorted(key for key in own.list_keys(**argument) if key in KEYS)
    else:
        known = {key for key in own.list_keys() if key in KEYS}
        found = ours.list_keys(limit=argument)
        assert set(found) <= known
        assert len(found) == len(set(found)) == (min(argument, len(known)) if argument else len(known))


TEXTS = ["one", "two", "", "Größe", "日本語", "\0"]
DOCUMENTS = st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(GROUPS[1:6])), max_size=8)
RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "documents": DOCUMENTS,
            "cleanup": st.sampled_from([None, "incremental", "full", "scoped_full"]),
            "batch_size": st.integers(1, 5),
            "cleanup_batch_size": st.integers(0, 3),
            "force_update": st.booleans(),
            "killed": st.one_of(st.none(), st.tuples(st.sampled_from(["before", "after"]), st.integers(0, 12))),
            "another": DOCUMENTS,
        }
    ),
    min_size=1,
    max_size=5,
)


class KilledError(BaseException):
    """Stands for the end of the process."""


@contextmanager
def killed(when: str, step: int, *parts: tuple[Any, str]) -> Iterator[None]:
    """End the block before or after call number ``step`` of these methods; with fewer calls, nothing happens."""
    steps = count()

    def dying(method):
        def call(*args, **options):
            number = next(steps)
            if number == step and when == "before":
                raise KilledError
            answer = method(*args, **options)
            if number == step:
                raise KilledError
            return answer

        return call

    with pytest.MonkeyPatch.context() as patch, suppress(KilledError):
        for holder, name in parts:
            patch.setattr(holder, name, dying(getattr(holder, name)))
        yield


def run(manager: Any, store: Any, documents: list[tuple[str, Any]], options: dict[str, Any]) -> dict[str, int]:
    given = [Document(text, metadata={"source": source}) for text, source in documents]
    return index(given, manager, store, source_id_key="source", key_encoder="blake2b", **options)


def content(store: Any) -> Counter:
    ids = list(store.store) if isinstance(store, InMemoryVectorStore) else list(store.collection.find())
    return Counter((each.page_content, each.metadata["source"]) for each in store.get_by_ids(ids))


@pytest.mark.slow
@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(runs=RUNS)
def test_indexing_gives_what_it_gives_in_memory_also_after_kills(runs):
    embeddings = DeterministicFakeEmbedding(size=16)
    ours, theirs = TwinvecVectorStore(embeddings), InMemoryVectorStore(embeddings)
    with clocked(step=1.0) as clock:
        manager, own = TwinvecRecordManager(ours), OwnRecordManager("docs", clock)
        for each in runs:
            options = {name: each[name] for name in ("cleanup", "batch_size", "cleanup_batch_size", "force_update")}
            dead = each["killed"]
            if dead is not None:
                parts = [(ours, "add_documents"), (ours, "delete")]
                parts += [(manager, name) for name in ("exists", "update", "list_keys", "delete_keys")]
                with killed(*dead, *parts):
                    run(manager, ours, each["documents"], options)
            # with "full", documents of the killed run that are gone are cleaned up, also those without a record
            documents = each["another"] if dead is not None and each["cleanup"] == "full" else each["documents"]
            expected = run(own, theirs, documents, options)
            done = run(manager, ours, documents, options)
            assert content(ours) == content(theirs)
            assert sorted(manager.list_keys()) == sorted(own.list_keys())
            if dead is None:
                assert done == expected
    ours.close()
