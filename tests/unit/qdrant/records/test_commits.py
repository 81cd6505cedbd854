"""Commits of two writers whose steps meet."""

from __future__ import annotations

import pytest
from qdrant_client import QdrantClient

from twinvec_qdrant import Collection
from twinvec_qdrant.records.commits import Change, Draft
from twinvec_qdrant.records.schema import Record, chunk_id, digest
from twinvec_qdrant.stores.points import Point
from words import WordEncoder

ENCODER = WordEncoder(max_tokens=16)
CHUNKS = [chunk_id("note", position, "content") for position in range(4)]


def points(revision: str) -> list[Point]:
    """The chunks of one version of a document, as a writer with this revision writes them."""
    own = {"kind": "chunk", "source": "note", "heading": "", "revision": revision, "metadata": {}}
    texts = [f"text {row}" for row in range(len(CHUNKS))]
    vectors = ENCODER.encode_document(texts)
    return [
        Point(key, {**own, "position": row, "text": texts[row], "content": digest(texts[row])}, vectors[row])
        for row, key in enumerate(CHUNKS)
    ]


@pytest.mark.parametrize("commits", ["before the removal", "after the removal"])
def test_a_committed_chunk_outlives_a_writer_that_gives_up_the_same_one(commits, monkeypatch):
    client = QdrantClient(":memory:")
    with (
        Collection.open("notes", client=client, encoder=ENCODER) as one,
        Collection.open("notes", client=client, encoder=ENCODER) as other,
    ):
        giving_up, committing = one._catalog, other._catalog
        draft = Draft("note", "of the one that gives up")
        commit, delete = committing.backend.commit, giving_up.backend.delete
        committed = []

        def commit_now(*arguments) -> None:
            if not committed:
                committed.append(arguments)
                commit(*arguments)

        def delete_late(ids, revisions=None) -> None:
            if commits == "before the removal":
                commit_now(*pending)
            delete(ids, revisions)

        def meet(records, expected) -> None:
            pending[:] = [records, expected]
            giving_up.stage(draft, points(draft.revision))
            giving_up.discard(draft)
            commit_now(records, expected)

        pending: list = []
        monkeypatch.setattr(giving_up.backend, "delete", delete_late)
        monkeypatch.setattr(committing.backend, "commit", meet)
        record = Record("note", "version", "of the one that commits", tuple(CHUNKS), 8, {})
        assert committing.write([Change(record, points(record.revision), None, space=ENCODER.space)]) == []
        assert draft.chunks, "the other writer has written the same chunks"
        monkeypatch.undo()
        assert other.verify().sound
        assert other.count() == len(CHUNKS)


@pytest.fixture
def two():
    """Two handles of one collection that has the document "note" with four chunks, of the revision "first"."""
    client = QdrantClient(":memory:")
    with (
        Collection.open("notes", client=client, encoder=ENCODER) as one,
        Collection.open("notes", client=client, encoder=ENCODER) as other,
    ):
        one._catalog.write([Change(version("first", 4), points("first"), None, space=ENCODER.space)])
        yield one._catalog, other._catalog


def version(revision: str, chunks: int) -> Record:
    return Record("note", f"version of {chunks}", revision, tuple(CHUNKS[:chunks]), 8, {})


def there(catalog) -> set[str]:
    return set(catalog.backend.retrieve(CHUNKS))


def test_a_replaced_chunk_that_its_writer_writes_again_meanwhile_is_removed(two, monkeypatch):
    first, shorter = two
    first.backend.upsert([*points("older")[:3], points("of one that lost")[3]])
    commit = shorter.backend.commit

    def meet(records, expected) -> None:
        first.backend.upsert([points("first")[3]])  # takes it back from the one that lost
        commit(records, expected)

    monkeypatch.setattr(shorter.backend, "commit", meet)
    assert (
        shorter.write([Change(version("shorter", 3), points("shorter")[:3], version("first", 4), space=ENCODER.space)])
        == []
    )
    assert there(shorter) == set(CHUNKS[:3])


def test_a_chunk_is_not_taken_back_for_a_version_that_has_been_replaced(two, monkeypatch):
    first, shorter = two
    revisions, asked = first.revisions, []

    def meet(ids) -> dict[str, str]:
        found = revisions(ids)
        asked.append(found)
        if len(asked) == 2:  # whether it has won: it has, and then the other one comes
            shorter.write(
                [Change(version("shorter", 3), points("shorter")[:3], version("second", 4), space=ENCODER.space)]
            )
            found[CHUNKS[3]] = "of one that lost"
        return found

    monkeypatch.setattr(first, "revisions", meet)
    assert first.write([Change(version("second", 4), points("second"), version("first", 4), space=ENCODER.space)]) == []
    assert len(asked) == 2
    assert there(shorter) == set(CHUNKS[:3])
