"""Handles that are open while their collection goes from one model to another."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
from qdrant_client import QdrantClient

import searching
from cases import slow
from deaths import Died
from holders import with_helpers
from searching import MODELS, NOTES, QUERY, Searching, cosines, loading
from stand_in import StandIn
from twinvec.errors import ConfigurationError, SpaceMismatchError, StoreError
from twinvec_qdrant import Collection, served_model
from twinvec_qdrant.ingest import document_gate, planned
from twinvec_qdrant.maintenance.migration import name_model
from twinvec_qdrant.records.schema import INTENTS, model_id
from words import StateEncoder, WordEncoder

OLD, NEW, THIRD = MODELS.values()


@pytest.fixture(params=["embedded", slow("client"), "server"])
def place(request, tmp_path):
    """Arguments of ``Collection.open`` that name a store; the same store for every call in a test."""
    if request.param == "embedded":
        yield {"path": tmp_path / "store"}
    elif request.param == "client":
        client = QdrantClient(":memory:")
        yield {"client": client}
        client.close()
    else:
        with StandIn().running() as server:
            yield {"url": server.url}


@pytest.fixture
def filled(place):
    """The handle that migrates."""
    with Collection.open("notes", encoder=OLD, chunking=False, **place) as collection:
        collection.ingest(NOTES.items())
        yield collection


@pytest.fixture
def other(filled, place):
    """A handle that is open all the while."""
    with Collection.open("notes", encoder=OLD, **place) as collection:
        yield collection


def answers(collection: Collection) -> dict[str, float]:
    return {hit.id: hit.score for hit in collection.search(QUERY, 50, "dense")}


def expected(encoder) -> dict[str, float]:
    return {name: pytest.approx(cosine, abs=1e-5) for name, cosine in cosines(encoder).items()}


def test_the_handle_that_migrates_serves_the_new_model(filled):
    assert filled.migrate(NEW).switched
    assert answers(filled) == expected(NEW)
    assert filled.encoder is NEW
    assert filled.ingest([("late", "a late note"), *NOTES.items()]).new == 1
    assert filled.drop_others() == ["words-0"]
    assert filled.search("late", mode="dense")[0].id == "late"
    assert filled.verify().sound
    assert "words-1" in repr(filled)
    assert filled.migrate(OLD).encoded == len(NOTES) + 1
    assert filled.search("late", mode="dense")[0].id == "late"
    assert filled.encoder is OLD


def test_a_check_sees_the_next_model_while_others_see_the_present_one(filled, other):
    def check(candidate: Collection) -> bool:
        assert answers(candidate) == expected(NEW)
        assert answers(filled) == expected(OLD)
        assert answers(other) == expected(OLD)
        return False

    assert not filled.migrate(NEW, check=check).switched
    assert answers(filled) == expected(OLD)
    assert answers(other) == expected(OLD)


@pytest.mark.parametrize("dropped", [False, True])
def test_others_go_over_to_a_model_that_can_be_loaded(filled, other, dropped, monkeypatch):
    filled.migrate(NEW)
    if dropped:
        filled.drop_others()
    with loading(monkeypatch):
        assert answers(other) == expected(NEW)
        assert other.encoder is NEW
        assert other.ingest([("late", "a late note")]).new == 1
        assert other.search_many(["late", "tea"], 1, "dense")[0][0].id == "late"
        assert other.search_diverse("late", 1)[0].id == "late"
        filled.delete(["late"])
        filled.migrate(OLD)
        assert answers(other) == expected(OLD)
        assert other.encoder is OLD, "the encoder that it was opened with needs no loading"


def test_a_writer_goes_over_before_it_searches(filled, other, monkeypatch):
    filled.migrate(NEW)
    with loading(monkeypatch):
        assert other.ingest(NOTES.items()).unchanged == len(NOTES)
        assert other.ingest([("late", "a late note")]).new == 1
    assert other.verify().sound


def test_where_the_model_cannot_be_loaded_the_old_vectors_serve_until_they_are_dropped(filled, other, caplog):
    filled.migrate(NEW)
    for _ in range(3):
        assert answers(other) == expected(OLD)
    assert caplog.text.count("cannot be loaded") == 1
    assert "words-1" in caplog.text
    with pytest.raises(SpaceMismatchError, match=r"words-1.*cannot be loaded.*open the collection again with it"):
        other.ingest([("late", "a late note")])
    report = other.verify(repair=True)
    assert (report.incomplete, report.sound) == ([], True)
    filled.drop_others()
    for search in (other.search, other.search_diverse):
        with pytest.raises(SpaceMismatchError, match=r"words-1.*cannot be loaded.*encoder=.*--model"):
            search(QUERY)
    assert len(other.search(QUERY, 50, "sparse")) == len(NOTES)
    report = other.verify(repair=True)
    assert (report.incomplete, report.sound) == ([], True)
    assert filled.ingest(NOTES.items()).unchanged == len(NOTES), "nothing was marked"


def test_vectors_are_searched_in_their_own_space(filled, other, monkeypatch, caplog):
    old_D, new_D = (encoder.encode_query([QUERY])[0] for encoder in (OLD, NEW))
    filled.migrate(NEW)
    with loading(monkeypatch):
        for _ in range(2):
            found = {hit.id: hit.score for hit in other.search_vector(old_D, 50)}
            assert found == expected(OLD), "the encoder of this handle made the vector"
            assert answers(other) == expected(NEW)
        assert caplog.text.count("former model") == 1
        assert {hit.id: hit.score for hit in other.search_vector(new_D, 50, space=NEW.space)} == expected(NEW)
        assert {hit.id: hit.score for hit in filled.search_vector(new_D, 50)} == expected(NEW)
        assert {hit.id: hit.score for hit in filled.search_vector(old_D, 50, space=OLD.space)} == expected(OLD)
        with pytest.raises(SpaceMismatchError, match=r"words-0"):
            other.ingest([("late", "a late note")], vectors={"late": old_D})
        filled.drop_others()
        for handle, options in ((other, {}), (filled, {"space": OLD.space})):
            for search in (handle.search_vector, handle.search_diverse):
                told = r"space words-0-32.*words-1.*Collection\.encoder and pass its space to"
                with pytest.raises(SpaceMismatchError, match=told):
                    search(old_D, **options)
        filled.migrate(OLD)
        assert {hit.id: hit.score for hit in other.search_vector(old_D, 50)} == expected(OLD)


def test_a_switch_that_dies_halfway_leaves_the_old_model_to_all(filled, other, place, monkeypatch):
    write = filled._backend.write_metadata

    def die(changes):
        if "vector" in changes:
            raise Died
        write(changes)

    monkeypatch.setattr(filled._backend, "write_metadata", die)
    with pytest.raises(Died):
        filled.migrate(NEW)
    monkeypatch.undo()
    assert filled._backend.retrieve([model_id()]), "the point is written first"
    with loading(monkeypatch):
        assert answers(other) == expected(OLD)
        assert answers(filled) == expected(OLD)
        assert other.drop_others() == ["words-1"]
        assert filled._backend.retrieve([model_id()])[model_id()].payload["vector"] == "dense"
        assert filled.migrate(NEW).switched
        assert answers(other) == expected(NEW)


def test_after_a_switch_that_died_long_ago_searches_rarely_ask_for_the_description(filled, other, monkeypatch):
    name_model(filled._backend, filled._serving.current.description.model_copy(update={"vector": "dense-of-nobody"}))
    asked, described = [], other._backend.described
    monkeypatch.setattr(other._backend, "described", lambda: asked.append(True) or described())
    clock = Clock()
    monkeypatch.setattr(served_model, "time", SimpleNamespace(monotonic=lambda: clock.seconds))
    for _ in range(3):
        assert answers(other) == expected(OLD)
    assert len(asked) == 3, "the switch may be under way"
    for seconds, times in ((10, 1), (0, 0), (0.9, 0), (0.2, 1), (0, 0)):
        clock.seconds += seconds
        asked.clear()
        answers(other)
        assert len(asked) == times
    clock.seconds += 2
    with loading(monkeypatch):
        filled.migrate(NEW)
        assert answers(other) == expected(NEW)


class Clock:
    seconds = 1000.0


class Lock:
    """A lock that says when somebody waits for it."""

    def __init__(self, lock, waits):
        self._lock, self._waits = lock, waits

    def acquire(self, blocking=True):
        if self._lock.acquire(blocking=False):
            return True
        self._waits.set()
        return blocking and self._lock.acquire()

    def release(self):
        self._lock.release()

    def __enter__(self):
        self.acquire()

    def __exit__(self, *_):
        self.release()


def test_a_writer_does_not_go_back_behind_a_switch_of_its_own_handle(filled, monkeypatch):
    """The writer pauses where it has read the model, until the switch is done or waits for the writer."""
    began, far, reports = threading.Event(), threading.Event(), []
    read = filled._backend.read_metadata

    def slowly():
        stored = read()
        if threading.current_thread() is writer:
            began.set()
            assert far.wait(60)
        return stored

    writer = threading.Thread(target=lambda: reports.append(filled.ingest([], dry_run=True)))
    monkeypatch.setattr(filled._backend, "read_metadata", slowly)
    monkeypatch.setattr(filled._serving, "_changing", Lock(filled._serving._changing, far))
    writer.start()
    began.wait()
    migrating = threading.Thread(target=lambda: [filled.migrate(NEW), far.set()])
    migrating.start()
    writer.join()
    migrating.join()
    assert reports
    assert filled.encoder is NEW


class Interrupted(WordEncoder):
    """The old model, whose ``call``th encoding of documents lets ``action`` happen first."""

    def __init__(self, call: int, action) -> None:
        super().__init__(seed=0, dim=32)
        self._calls, self._action = count(1), lambda: action() if next(self._calls) == call else None

    def encode_document(self, texts):
        self._action()
        return super().encode_document(texts)


MORE = {f"more {row}": " ".join([f"rye {row}"] * (row % 40)) + " bread" for row in range(120)}


@pytest.mark.parametrize("call", [2, 3, 5])  # the first is for the probes
@pytest.mark.parametrize("place", ["client", "server"], indirect=True)
def test_an_ingest_under_way_at_a_switch_goes_on_with_the_new_model(filled, place, call, monkeypatch):
    encoder = Interrupted(call, lambda: filled.migrate(NEW))
    assert encoder.space == OLD.space
    with Collection.open("notes", encoder=encoder, **place) as other, loading(monkeypatch):
        report = other.ingest({**NOTES, **MORE}.items())
        assert (report.new, report.unchanged, report.failed) == (len(MORE), len(NOTES), 0)
        assert other.encoder is NEW
        assert other.verify().sound
        assert not [*other._backend.scroll([INTENTS])]
        filled.drop_others()
        assert other.search("rye 7", mode="dense", limit=1)[0].id.startswith("more")
        assert other.ingest({**NOTES, **MORE}.items()).unchanged == len(NOTES) + len(MORE)


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_an_ingest_that_cannot_go_on_says_why_and_keeps_what_is_committed(filled, place, monkeypatch):
    monkeypatch.setattr(planned, "BATCH_CHUNKS", 20)
    with Collection.open("notes", encoder=Interrupted(9, lambda: filled.migrate(NEW)), **place) as other:
        with pytest.raises(SpaceMismatchError, match=r"words-1.*cannot be loaded") as caught:
            other.ingest(MORE.items())
        assert "committed before the error" in caught.value.__notes__[-1]
        assert 0 < len(filled.find()) - len(NOTES) < len(MORE)
    assert filled.ingest(MORE.items()).failed == 0
    assert filled.verify().sound


@pytest.mark.slow
def test_documents_that_break_off_at_a_switch_end_the_ingest_and_nothing_is_pruned(filled, other, monkeypatch):
    monkeypatch.setattr(document_gate, "GROUP_DOCUMENTS", 1)
    monkeypatch.setattr(planned, "BATCH_CHUNKS", 1)

    def documents():
        yield from MORE.items()
        filled.migrate(NEW)
        raise ValueError("the documents break off")

    with loading(monkeypatch), pytest.raises(ValueError, match="the documents break off"):
        other.ingest(documents(), source="notes", prune=True)
    assert other.encoder is NEW
    assert set(filled.find()) == {*NOTES, *MORE}


def test_the_point_of_the_model_is_nothing_else(filled, place):
    filled.migrate(NEW)
    assert filled.count() == filled.info()["points"] == len(NOTES)
    assert filled.info()["sources"] == len(filled.find()) == len(NOTES)
    assert filled.verify(repair=True).sound
    assert filled._backend.retrieve([model_id()])
    copy = QdrantClient(":memory:")
    assert filled.push(client=copy).copied == len(NOTES)
    with Collection.open("notes", client=copy, encoder=NEW) as pushed:
        assert answers(pushed) == expected(NEW)
        named = pushed._backend.retrieve([model_id()])[model_id()].payload
        assert named == {"kind": "model", "vector": "dense", "space": NEW.space}


def test_a_real_refusal_is_no_switch(filled, monkeypatch):
    monkeypatch.setattr(filled._backend, "run", lambda steps: _refused(steps))
    with pytest.raises(StoreError, match="out of order"):
        filled.search(QUERY)


def _refused(steps):
    step = next(steps)
    while True:
        if hasattr(step, "encode"):
            step = steps.send(OLD.encode_query(list(step.texts)))
        else:
            steps.throw(StoreError("out of order"))


def test_stored_token_states_follow_the_model(place, monkeypatch):
    old, new = StateEncoder(seed=0, dim=32), StateEncoder(seed=1, dim=48, states_dim=16)
    with Collection.open("notes", encoder=old, chunking=False, late_interaction=True, **place) as collection:
        collection.ingest(NOTES.items())
        reranker = collection.maxsim()
        hits = collection.search(QUERY)
        before = reranker.rerank(QUERY, hits)
        collection.migrate(new)
        collection.drop_others()
        new.states_of.clear()
        after = reranker.rerank(QUERY, hits)
        assert [hit.scores["maxsim"] for hit in after] != [hit.scores["maxsim"] for hit in before]
        assert new.states_of == [], "the store has the states of the new model"


def through(collection: Collection, searched: Callable[[], None] = lambda: None) -> None:
    """Migrate there and back, and drop the other model each time.

    ``searched`` is called after each switch. It returns when the other threads have searched once more.
    """
    for encoder in (NEW, OLD):
        assert collection.migrate(encoder).switched
        assert answers(collection) == expected(encoder)
        searched()
        assert collection.drop_others()
    assert collection.migrate(NEW, check=lambda candidate: False).switched is False
    collection.drop_others()
    assert collection.verify(repair=True).sound


@pytest.mark.slow
def test_threads_that_search_never_fail(filled, place, monkeypatch):
    over = threading.Event()
    handles = [Collection.open("notes", encoder=OLD, **place) for _ in range(2)]
    threads = [Searching(lambda each=each: each.search(QUERY, 50, "dense"), over) for each in [filled, *handles]]

    def searched():
        for thread in threads:
            thread.wait_for(2)

    with loading(monkeypatch):
        for thread in threads:
            thread.start()
        try:
            searched()
            through(filled, searched)
            searched()
        finally:
            over.set()
            for thread in threads:
                thread.join()
    for thread in threads:
        assert not thread.failure
        assert thread.models[0] == thread.models[-1] == "words-0"
        assert set(thread.models) == {"words-0", "words-1"}
    for handle in handles:
        handle.close()


@pytest.mark.slow
def test_processes_that_search_never_fail():
    with StandIn().running() as server:
        with Collection.open("notes", url=server.url, encoder=OLD, chunking=False) as collection:
            collection.ingest(NOTES.items())
            command = [sys.executable, str(Path(searching.__file__)), server.url]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": with_helpers()}
            processes = [subprocess.Popen(command, **pipes) for _ in range(3)]
            try:
                assert [process.stdout.readline() for process in processes] == ["ready\n"] * 3
                through(collection)
            finally:
                ends = [process.communicate(timeout=120)[0].split() for process in processes]
        assert all(end[0] == end[-1] == "words-0" for end in ends), ends
        assert all(set(end) <= {"words-0", "words-1"} for end in ends), ends


def test_another_migration_at_once_is_refused(filled, other):
    filled.migrate(NEW, check=lambda candidate: False)
    with pytest.raises(ConfigurationError, match="under way"):
        other.migrate(THIRD)
    assert filled.migrate(NEW).switched
