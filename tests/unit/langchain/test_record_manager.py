"""LangChain's ``index`` with the record manager that lives in the collection."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import aindex, index
from qdrant_client import QdrantClient, models

from langchain_twinvec import TwinvecRecordManager, TwinvecVectorStore
from stand_in import StandIn
from twinvec.errors import ConfigurationError
from twinvec_qdrant import Writer
from twinvec_qdrant.records import writer_process


@pytest.fixture
def store() -> TwinvecVectorStore:
    return TwinvecVectorStore(DeterministicFakeEmbedding(size=16))


@pytest.fixture
def manager(store) -> TwinvecRecordManager:
    return TwinvecRecordManager(store)


def documents(*texts: str, source: str = "a.md") -> list[Document]:
    return [Document(text, metadata={"source": source}) for text in texts]


def run(manager, store, docs, cleanup="full") -> dict[str, int]:
    done = index(docs, manager, store, cleanup=cleanup, source_id_key="source", key_encoder="blake2b")
    return {name.removeprefix("num_"): count for name, count in done.items() if count}


def texts_of(store) -> set[str]:
    return {document.page_content for document in store.get_by_ids(store.collection.find())}


def test_indexing_twice_writes_once(manager, store) -> None:
    assert run(manager, store, documents("one", "two")) == {"added": 2}
    assert run(manager, store, documents("one", "two")) == {"skipped": 2}
    assert texts_of(store) == {"one", "two"}


@pytest.mark.parametrize("cleanup", ["full", "incremental", "scoped_full"])
def test_each_way_of_cleaning_up_removes_what_is_gone(manager, store, cleanup) -> None:
    run(manager, store, documents("one", "two"), cleanup)
    run(manager, store, documents("other", source="b.md"), "incremental")
    expected = {"added": 1, "skipped": 1, "deleted": 2 if cleanup == "full" else 1}
    assert run(manager, store, documents("one", "three"), cleanup) == expected
    assert texts_of(store) == {"one", "three"} | (set() if cleanup == "full" else {"other"})


@pytest.mark.parametrize("cleanup", ["full", "incremental"])
@pytest.mark.parametrize(
    ("indexes", "metadata"), [({"*": False}, {}), (None, {"time": "2024-05-01"}), ({"time": "datetime"}, {})]
)
def test_clean_up_on_a_server_that_permits_filters_on_indexed_keys_only(indexes, metadata, cleanup) -> None:
    """The keys of the documents may have used up the indexes, or have other types than those of the records."""
    with StandIn().running() as server:
        server.be_strict(models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False))
        embeddings = DeterministicFakeEmbedding(size=16)
        store = TwinvecVectorStore(embeddings, url=server.url, payload_indexes=indexes)
        store.add_texts(["by hand"], [metadata], ids=["mine"])
        manager = TwinvecRecordManager(store)
        assert run(manager, store, documents("one", "two"), cleanup) == {"added": 2}
        assert run(manager, store, documents("one", "three"), cleanup) == {"added": 1, "skipped": 1, "deleted": 1}
        assert texts_of(store) == {"by hand", "one", "three"}
        store.close()


def test_no_cleaning_up_leaves_all(manager, store) -> None:
    run(manager, store, documents("one"), None)
    run(manager, store, documents("two"), None)
    assert texts_of(store) == {"one", "two"}


def test_what_vanished_from_the_store_is_written_again(manager, store) -> None:
    run(manager, store, documents("one", "two"))
    lost = next(key for key in store.collection.find() if store.get_by_ids([key])[0].page_content == "one")
    store.delete([lost])
    assert manager.exists([lost]) == [False]
    assert run(manager, store, documents("one", "two")) == {"added": 1, "skipped": 1}
    assert texts_of(store) == {"one", "two"}


def test_what_has_lost_its_chunk_is_written_again_after_a_repair() -> None:
    client = QdrantClient(":memory:")
    store = TwinvecVectorStore(DeterministicFakeEmbedding(size=16), "wiki", client=client)
    manager = TwinvecRecordManager(store)
    run(manager, store, documents("one", "two"))
    chunk = models.FieldCondition(key="text", match=models.MatchValue(value="one"))
    client.delete("wiki", models.Filter(must=[chunk]))
    assert len(store.collection.verify(repair=True).incomplete) == 1
    assert run(manager, store, documents("one", "two")) == {"added": 1, "skipped": 1}
    assert texts_of(store) == {"one", "two"}
    assert run(manager, store, documents("two")) == {"skipped": 1, "deleted": 1}


def test_the_state_is_there_after_a_restart(tmp_path) -> None:
    embeddings = DeterministicFakeEmbedding(size=16)
    first = TwinvecVectorStore(embeddings, path=tmp_path)
    run(TwinvecRecordManager(first), first, documents("one", "two"))
    first.close()
    second = TwinvecVectorStore(embeddings, path=tmp_path)
    assert run(TwinvecRecordManager(second), second, documents("one", "three")) == {
        "added": 1,
        "skipped": 1,
        "deleted": 1,
    }
    second.close()


def test_namespaces_do_not_meet(store) -> None:
    first, second = TwinvecRecordManager(store, "first"), TwinvecRecordManager(store, "second")
    run(first, store, documents("one"))
    run(second, store, documents("two"))
    assert run(first, store, []) == {"deleted": 1}
    assert texts_of(store) == {"two"}


def test_keys_are_listed_by_time_and_group(manager, store) -> None:
    store.add_texts(["one", "two"], ids=["k1", "k2"])
    manager.update(["k1"], group_ids=["a"])
    between = time.time()
    manager.update(["k2", "gone"], group_ids=["b", "b"], time_at_least=between)
    assert manager.list_keys(before=between) == ["k1"]
    assert manager.list_keys(after=between) == ["k2"]
    assert manager.list_keys(group_ids=["a"]) == ["k1"]
    assert manager.list_keys(group_ids=[]) == []
    with pytest.raises(ConfigurationError, match="group_ids: expected a list of group ids, got one text"):
        manager.list_keys(group_ids="a")
    assert sorted(manager.list_keys()) == ["k1", "k2"]
    assert len(manager.list_keys(limit=1)) == 1
    assert len(manager.list_keys(limit=0)) == 2, "no limit, as in LangChain's own record managers"
    with pytest.raises(ConfigurationError, match="limit must be at least 0"):
        manager.list_keys(limit=-1)
    assert manager.exists(["k2", "gone"]) == [True, False]
    manager.delete_keys(["k1"])
    assert manager.list_keys() == ["k2"]


def test_impossible_updates_are_refused(manager) -> None:
    with pytest.raises(ConfigurationError, match="one item for each of the 2 keys, got 1"):
        manager.update(["a", "b"], group_ids=["x"])
    with pytest.raises(ConfigurationError, match="clock"):
        manager.update(["a"], time_at_least=time.time() + 60)


async def test_indexing_may_be_awaited(manager, store) -> None:
    async def again(*texts: str) -> dict[str, int]:
        done = await aindex(
            documents(*texts), manager, store, cleanup="full", source_id_key="source", key_encoder="blake2b"
        )
        return {name.removeprefix("num_"): count for name, count in done.items() if count}

    assert await again("one", "two") == {"added": 2}
    assert await again("one", "three") == {"added": 1, "skipped": 1, "deleted": 1}
    assert texts_of(store) == {"one", "three"}


class Killed(BaseException):
    """Stands for the end of the process."""


def killed(manager, store, docs, monkeypatch, *, at: str, cleanup: str) -> None:
    """Run ``index`` and let it die once it has added documents, or before a step of its clean-up."""

    def added(*args, **options):
        TwinvecVectorStore.add_documents(store, *args, **options)
        raise Killed

    def die(*args, **options):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*((store, at, added) if at == "add_documents" else (manager, at, die)))
        with pytest.raises(Killed):
            run(manager, store, docs, cleanup)


@pytest.mark.parametrize("cleanup", ["full", "incremental", "scoped_full"])
@pytest.mark.parametrize("at", ["add_documents", "list_keys", "delete_keys"])
@pytest.mark.parametrize("following", ["two", "three"])
def test_the_next_indexing_repairs_what_a_kill_has_left(manager, store, monkeypatch, cleanup, at, following) -> None:
    other = documents("other", source="b.md")
    run(manager, store, documents("one") + other, cleanup)
    killed(manager, store, documents("two") + other, monkeypatch, at=at, cleanup=cleanup)
    assert "two" in texts_of(store), "it died after the new version was added"
    run(manager, store, documents(following) + other, cleanup)
    assert texts_of(store) == {following, "other"}
    assert run(manager, store, documents("four") + other, cleanup)["deleted"] == 1
    assert texts_of(store) == {"four", "other"}


def test_what_another_process_is_about_to_record_stays(manager, store, monkeypatch) -> None:
    killed(manager, store, documents("theirs", source="c.md"), monkeypatch, at="add_documents", cleanup="incremental")
    here = Writer.this()
    # the parent lives as long as this process; another machine cannot be looked at
    parent = replace(here, process=os.getppid(), started=writer_process._started(os.getppid()))
    for theirs, stays in ((parent, True), (replace(here, host="other"), True), (here, False)):
        (key,) = (key for key, note in manager._notes.find() if note.get("announced"))
        note = manager._notes.get([key])[key]
        manager._notes.put({key: {**note, "writer": json.dumps(theirs.as_payload())}})
        run(manager, store, documents("own"), "incremental")
        assert ("theirs" in texts_of(store)) is stays


@pytest.mark.parametrize("cleanup", ["full", "incremental", "scoped_full"])
def test_what_another_thread_is_about_to_record_stays(manager, store, monkeypatch, cleanup) -> None:
    run(manager, store, documents("old b", source="b.md"), cleanup)
    add = store.add_documents
    others = []

    def added_while_another_runs(docs, **options):
        ids = add(docs, **options)
        monkeypatch.undo()
        with ThreadPoolExecutor(1) as pool:
            others.append(pool.submit(run, manager, store, documents("b", source="b.md"), cleanup).result())
        return ids

    monkeypatch.setattr(store, "add_documents", added_while_another_runs)
    run(manager, store, documents("a"), cleanup)
    assert others == [{"added": 1, "deleted": 1}]
    assert texts_of(store) == {"a", "b"}
    run(manager, store, documents("a", "new a"), "incremental")
    assert texts_of(store) == {"a", "new a", "b"}


async def test_what_another_task_is_about_to_record_stays(manager, store, monkeypatch) -> None:
    options = {"cleanup": "incremental", "source_id_key": "source", "key_encoder": "blake2b"}
    add = store.aadd_documents

    async def added_while_another_runs(docs, **given):
        ids = await add(docs, **given)
        monkeypatch.undo()
        await asyncio.create_task(aindex(documents("b", source="b.md"), manager, store, **options))
        return ids

    monkeypatch.setattr(store, "aadd_documents", added_while_another_runs)
    await aindex(documents("a"), manager, store, **options)
    assert texts_of(store) == {"a", "b"}


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Let no garbage be collected during a test."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_run_that_failed_in_another_thread_leaves_nothing(manager, store, monkeypatch) -> None:
    """The thread lives on, as those of a pool do. The run ends with its last reference, and not with a collection."""
    with ThreadPoolExecutor(1) as pool:
        options = {"at": "add_documents", "cleanup": "incremental"}
        pool.submit(killed, manager, store, documents("two"), monkeypatch, **options).result()
        assert texts_of(store) == {"two"}
        run(manager, store, documents("three"), "incremental")
        assert texts_of(store) == {"three"}


def test_a_run_that_is_repeated_while_its_error_is_kept_leaves_nothing(manager, store, monkeypatch) -> None:
    def added(*args, **options):
        TwinvecVectorStore.add_documents(store, *args, **options)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(store, "add_documents", added)
        with pytest.raises(Killed) as kept:
            run(manager, store, documents("two"), "incremental")
    run(manager, store, documents("three"), "incremental")
    assert texts_of(store) == {"three"}
    assert kept.tb is not None


def test_a_refresh_keeps_the_group(manager, store, monkeypatch) -> None:
    store.add_texts(["one"], ids=["k1"])
    manager.update(["k1"], group_ids=["a"])
    manager.update(["k1"])
    assert manager.list_keys(group_ids=["a"]) == ["k1"]


def test_documents_from_elsewhere_stay(manager, store) -> None:
    store.add_texts(["by hand"], ids=["mine"])
    assert manager.exists(["mine"]) == [False]
    run(manager, store, documents("one"))
    run(manager, store, documents("two"))
    assert texts_of(store) == {"by hand", "two"}


def test_asking_for_a_missing_key_changes_no_list(manager) -> None:
    assert manager.exists(["gone"]) == [False]
    assert manager.list_keys() == manager.list_keys(before=time.time() + 1) == []
