"""What a store lost or kept too much is found, and made good by the next ingest; and what an ingest would do."""

from __future__ import annotations

import pytest

from twinvec_qdrant import Collection
from twinvec_qdrant.backends.base import Point
from twinvec_qdrant.backends.conditions import field_is
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
    stray = Point("00000000-0000-0000-0000-000000000001", {**point.payload, "source": "gone", "revision": "lost"})
    guides._backend.upsert([stray])
    assert guides.verify().stray == 1
    assert guides.count() == 10
    guides.verify(repair=True)
    assert guides.verify().sound
    assert guides.count() == 9


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
