"""Two writers of one collection, taking turns at the worst of moments."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from deaths import Died, die_at
from twinvec.errors import SpaceMismatchError
from twinvec_qdrant import Collection
from twinvec_qdrant.records.bm25_weights import DRIFT
from twinvec_qdrant.records.intents import ABANDONED_SECONDS
from twinvec_qdrant.records.writer_process import _started
from twinvec_qdrant.stores.conditions import field_is
from words import WordEncoder

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc to look into")
OLD = {"guide": "old guide\n\n" + "word " * 9, "tea": "green tea"}
NEW = {"guide": "new guide\n\n" + "word " * 9, "tea": "green tea"}


@pytest.fixture
def writers():
    """Two handles that know nothing of one another, as two processes on one server have."""
    client = QdrantClient(":memory:")
    yield [Collection.open("notes", client=client, encoder=WordEncoder(max_tokens=16)) for _ in range(2)]
    client.close()


def before(backend, name: str, action, monkeypatch) -> None:
    """Let ``action`` happen just before the first call of a method."""
    method = getattr(backend, name)

    def call(*args, **options):
        monkeypatch.setattr(backend, name, method)
        action()
        return method(*args, **options)

    monkeypatch.setattr(backend, name, call)


def short(count: int) -> list[tuple[str, str]]:
    return [(f"short{number}", "a short text") for number in range(count)]


def texts(collection: Collection) -> dict[str, str]:
    return {each.id: each.text.strip() for each in collection.get(["guide", "tea"])}


def stripped(documents: dict[str, str]) -> dict[str, str]:
    return {name: text.strip() for name, text in documents.items()}


def test_a_version_that_another_writer_brings_back_is_not_cleaned_up(writers, monkeypatch):
    first, second = writers
    first.ingest(OLD.items())
    before(first._backend, "delete", lambda: second.ingest(OLD.items()), monkeypatch)
    assert first.ingest(NEW.items()).updated == 1
    assert texts(first) == stripped(OLD)
    assert first.verify().sound
    assert first.count() == 2


def test_the_same_new_version_from_both_is_written_once(writers, monkeypatch):
    first, second = writers
    first.ingest(OLD.items())
    before(first._backend, "commit", lambda: second.ingest(NEW.items()), monkeypatch)
    report = first.ingest(NEW.items())
    assert (report.updated, report.unchanged, report.failed) == (0, 2, 0)
    assert texts(first) == stripped(NEW)
    assert first.verify().sound


def test_of_two_versions_the_later_stays(writers, monkeypatch):
    first, second = writers
    before(first._backend, "commit", lambda: second.ingest(OLD.items()), monkeypatch)
    report = first.ingest(NEW.items())
    assert (report.updated, report.unchanged, report.failed) == (1, 1, 0)
    assert texts(second) == stripped(NEW)
    assert second.verify().sound


@pytest.mark.parametrize("brought", [OLD, NEW], ids=["old", "new"])
def test_two_writers_may_clean_up_after_a_dead_one(writers, brought, monkeypatch):
    first, second = writers
    first.ingest(OLD.items())
    with monkeypatch.context() as patched:
        die_at(2, done=False, backend=first._backend, monkeypatch=patched)  # the chunks are there, the commit is not
        with pytest.raises(Died):
            first.ingest(NEW.items())
    assert first.count() > 2
    before(second._backend, "delete", lambda: first.ingest(NEW.items()), monkeypatch)
    report = second.ingest(brought.items())  # of the old version, only the clean-up deletes
    assert (report.unchanged, report.updated) == ((2, 0) if brought is OLD else (1, 1))
    assert report.encoded == 0, "the vectors that the dead writer left are found"
    assert texts(second) == stripped(NEW)
    assert second.verify().sound
    assert second.count() == 2


@pytest.mark.parametrize(
    ("writer", "left"),
    [
        ({}, False),
        ({"process": 2**31 - 1}, False),
        ({"process": os.getppid(), "started": _started(os.getppid())}, True),
        pytest.param({"process": os.getppid(), "started": "1"}, False, id="an id given again", marks=NEEDS_PROC),
        ({"namespace": "pid:[1]", "process": 2**31 - 1}, True),
        ({"boot": "another", "process": 2**31 - 1}, True),
        ({"host": "elsewhere", "process": 2**31 - 1}, True),
        ({"host": "elsewhere", "process": 2**31 - 1, "time": time.time() - ABANDONED_SECONDS - 1}, False),
    ],
)
def test_what_a_writer_leaves_goes_once_it_must_be_gone(writers, writer, left, monkeypatch):
    first, second = writers
    first.ingest(OLD.items())
    with monkeypatch.context() as patched:
        die_at(2, done=False, backend=first._backend, monkeypatch=patched)
        with pytest.raises(Died):
            first.ingest(NEW.items())
    (intent,) = first._backend.scroll([field_is("kind", "intent")])
    first._backend.upsert([replace(intent, payload={**intent.payload, **writer})])
    assert second.ingest([("other", "words")]).new == 1
    assert second.count() == (4 if left else 3)
    assert second.verify().sound
    assert texts(second) == stripped(OLD)


@pytest.mark.parametrize("prune", [False, True])
def test_an_update_is_not_lost_to_a_removal_that_began_before(writers, prune, monkeypatch):
    first, second = writers
    first.ingest(OLD.items())
    before(first._backend, "delete", lambda: second.ingest(NEW.items()), monkeypatch)
    if prune:
        assert first.ingest([("tea", OLD["tea"])], prune=True).deleted == 0
    else:
        assert first.delete(["guide"]) == 0
    assert texts(second) == stripped(NEW)
    assert second.verify().sound
    assert first.delete(["guide"]) == 1
    assert second.count() == 1


def test_weights_follow_what_both_have_brought(place):
    encoder = WordEncoder()
    documents = {f"long{number}": f"document {number} " + "word " * (150 + number) for number in range(50)}
    with (
        Collection.open("notes", encoder=encoder, chunking=False, **place) as first,
        Collection.open("notes", encoder=encoder, **place) as second,
    ):
        first.ingest([(f"short{number}", f"document {number}") for number in range(10)])
        second.ingest(documents.items())
        first.ingest([("last", "the last document")])
        terms = [record.terms for record in first._catalog.records(first.find()).values()]
        assert len(terms) == 61
        average = sum(terms) / len(terms)
        assert first.info()["average_length"] == pytest.approx(average, rel=DRIFT)
        with Collection.open("other", encoder=encoder, chunking=False, **place) as at_once:
            at_once.ingest([(each.id, each.text) for each in first.get(first.find())])
            expected = {hit.id: hit.score for hit in at_once.search("document word", 61, "sparse")}
        assert {hit.id: hit.score for hit in second.search("document word", 61, "sparse")} == pytest.approx(
            expected, rel=2 * DRIFT
        )


def test_weights_are_computed_again_while_another_writer_removes_chunks(writers, monkeypatch):
    first, second = writers
    first.ingest(short(5))
    before(first._backend, "update_sparse", lambda: second.delete(["short0", "short1"]), monkeypatch)
    assert first.ingest([(f"long{number}", "long " * 12) for number in range(20)]).new == 20
    assert first.info()["average_length"] > 9
    assert second.verify().sound
    assert len(second.find()) == 23


def test_an_average_that_was_long_under_way_does_not_undo_a_migration(writers, monkeypatch):
    first, second = writers
    first.ingest(short(5))
    new = WordEncoder(seed=1, max_tokens=16)
    before(second._backend, "write_metadata", lambda: first.migrate(new), monkeypatch)
    second.ingest([(f"long{number}", "long " * 12) for number in range(20)])
    info = first.info()
    assert (info["model"], info["migrated_from"], info["migrating_to"]) == ("words-1", "words-0", None)
    assert info["average_length"] > 9


@pytest.mark.parametrize("call", ["upsert", "commit"])
def test_a_writer_who_is_late_for_a_migration_commits_nothing(writers, call, monkeypatch):
    first, second = writers
    first.ingest(OLD.items())
    new = WordEncoder(seed=1, max_tokens=16)
    before(second._backend, call, lambda: first.migrate(new), monkeypatch)
    if call == "upsert":
        with pytest.raises(SpaceMismatchError, match=r"has another model since it was opened, .words-1."):
            second.ingest(NEW.items())
    else:  # its chunks were there in time, and have been brought over
        assert second.ingest(NEW.items()).updated == 1
    with Collection.open("notes", client=first._backend._client, encoder=new) as migrated:
        assert texts(migrated) == stripped(OLD if call == "upsert" else NEW)
        assert migrated.verify().incomplete == []
        assert migrated.ingest(NEW.items()).failed == 0
        assert texts(migrated) == stripped(NEW)
        assert migrated.verify().sound
        (best, *_) = migrated.search("new guide", mode="dense")
        assert best.text.startswith("new guide")
