"""What a store lost or kept too much is found, and made good by the next ingest; and what an ingest would do."""

from __future__ import annotations

import pytest
from qdrant_client import QdrantClient

from twinvec_qdrant import Collection
from twinvec_qdrant.records.schema import record_id
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Point
from words import WordEncoder

GUIDES = {
    f"guide{number}": "\n\n".join(f"guide {number} part {part} " + "word " * 9 for part in range(3))
    for number in range(3)
}


@pytest.fixture
def guides(place):
    with Collection.open("guides", encoder=WordEncoder(max_tokens=16), **place) as opened:
        opened.ingest(GUIDES.items())
        yield opened


def chunks(collection: Collection, source: str) -> list[Point]:
    return list(collection._backend.scroll([field_is("kind", "chunk"), field_is("source", source)]))


def test_a_whole_collection_is_sound(guides):
    report = guides.verify()
    assert (report.sources, report.chunks, report.incomplete, report.stray) == (3, 9, [], 0)
    assert report.sound
    assert not report.repaired


def test_lost_chunks_are_found_and_written_again(guides):
    guides._backend.delete([chunks(guides, "guide1")[0].id, *(point.id for point in chunks(guides, "guide2"))])
    report = guides.verify()
    assert (report.incomplete, report.sound) == (["guide1", "guide2"], False)
    assert guides.ingest(GUIDES.items()).unchanged == 3, "records alone do not show it"
    assert guides.verify(repair=True).repaired
    again = guides.ingest(GUIDES.items())
    assert (again.updated, again.unchanged, again.encoded) == (2, 1, 4)
    assert guides.verify().sound
    assert guides.count() == 9
    assert {each.id: each.text for each in guides.get(list(GUIDES))} == {
        name: text.strip().replace(" \n", "\n") for name, text in GUIDES.items()
    }


def test_chunks_without_their_vector_are_found(guides):
    point = chunks(guides, "guide0")[0]
    guides._backend.upsert([point])
    assert guides.verify().incomplete == ["guide0"]
    guides.verify(repair=True)
    assert guides.ingest(GUIDES.items()).encoded == 1
    assert guides.verify().sound


def test_chunks_that_no_source_lists_are_removed(guides):
    point = chunks(guides, "guide0")[0]
    stray = Point("00000000-0000-0000-0000-000000000001", {**point.payload, "revision": "lost"})
    guides._backend.upsert([stray])
    assert guides.verify().stray == 1
    assert guides.count() == 10
    guides.verify(repair=True)
    assert guides.verify().sound
    assert guides.count() == 9


def test_a_document_whose_record_is_lost_is_named_and_comes_back(guides):
    whole = guides.get(["guide1"])
    guides._backend.delete([record_id("guide1")])
    assert guides.get(["guide1"]) == []
    for repair in (False, True):
        report = guides.verify(repair=repair)
        assert (report.forgotten, report.incomplete, report.stray, report.sound) == (["guide1"], [], 0, False)
    assert guides.get(["guide1"]) == whole
    assert guides.count() == 9
    assert guides.verify().incomplete == ["guide1"], "nothing says that this is all of it"
    again = guides.ingest(GUIDES.items())
    assert (again.updated, again.unchanged, again.encoded) == (1, 2, 0)
    assert guides.verify().sound
    assert [record.terms for record in guides._catalog.records(GUIDES).values()] == [39] * 3


def test_a_document_that_another_writer_removes_meanwhile_is_not_forgotten(monkeypatch):
    client, encoder = QdrantClient(":memory:"), WordEncoder(max_tokens=16)
    with (
        Collection.open("guides", client=client, encoder=encoder) as guides,
        Collection.open("guides", client=client, encoder=encoder) as other,
    ):
        guides.ingest(GUIDES.items())
        scroll = guides._backend.scroll

        def late(conditions, fields=None):
            if field_is("kind", "record") in conditions:
                other.delete(["guide1"])
            return scroll(conditions, fields)

        monkeypatch.setattr(guides._backend, "scroll", late)
        assert guides.verify(repair=True).forgotten == []
        monkeypatch.undo()
        assert sorted(guides.find()) == ["guide0", "guide2"]
        assert guides.verify().sound


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_what_another_writer_replaces_meanwhile_is_not_left_over(guides, place, monkeypatch):
    changed = GUIDES["guide1"].replace("part 2", "part two")
    with Collection.open("guides", encoder=guides.encoder, **place) as other:
        scroll, updates = guides._backend.scroll, []

        def late(conditions, fields=None):
            if field_is("kind", "intent") in conditions and not updates:
                updates.append(other.ingest([("guide1", changed)]).updated)
            return scroll(conditions, fields)

        monkeypatch.setattr(guides._backend, "scroll", late)
        report = guides.verify()
    assert updates == [1]
    assert (report.stray, report.sound) == (0, True)


def test_a_dry_run_foretells_the_ingest_and_does_nothing(guides):
    encoder = guides.encoder
    documents = [
        ("guide0", GUIDES["guide0"]),
        ("guide1", GUIDES["guide1"].replace("part 2", "part two")),
        ("fresh", "a fresh guide"),
        ("broken", "\ud800"),
    ]
    encoder.encoded.clear()
    before = guides.info()
    foretold = guides.ingest(documents, prune=True, dry_run=True)
    assert encoder.encoded == []
    assert guides.info() == before
    assert (foretold.new, foretold.updated, foretold.unchanged, foretold.deleted, foretold.failed) == (1, 1, 1, 1, 1)
    assert (foretold.chunks, foretold.encoded) == (2, 2)
    assert guides.ingest(documents, prune=True) == foretold
