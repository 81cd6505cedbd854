"""What a kill costs: an ingest that dies between any two writes has at most five seconds of encoding to do again.

Time is counted by the texts that a slow encoder got, on a clock of its own. ``tests/crash`` kills real processes.
"""

from __future__ import annotations

import zlib
from itertools import accumulate, repeat

import pytest

from deaths import Died, die_at
from slow import SlowEncoder
from twinvec_qdrant import ChunkSettings, Collection
from twinvec_qdrant.ingest.pace import PORTION_SECONDS, Pace
from twinvec_qdrant.stores.conditions import field_is

WORK_SECONDS = 5.0  # the largest encoding time that a killed ingest loses


def part(number: int) -> str:
    """A paragraph that is a chunk of its own."""
    return f"part {number} " + " ".join(f"word{number + step}" for step in range(number % 3 + 13))


HUGE = {"huge": "\n\n".join(map(part, range(150)))}
SMALL = {f"n{number:03}": "\n\n".join(part(1000 + 3 * number + step) for step in range(3)) for number in range(50)}
FEW = dict(list(SMALL.items())[:10])
SPEEDS = {
    "even": lambda text: 0.1,
    "by length": lambda text: len(text) / 1000,
    "by chance": lambda text: zlib.crc32(text.encode()) % 100 / 500,
    "fast": lambda text: 0.0001,
    "a second each": lambda text: 1.0,
}


def points(collection: Collection) -> set[tuple[str, str]]:
    """Every point: its kind and its id."""
    conditions = {kind: [field_is("kind", kind)] for kind in ("chunk", "record", "intent")}
    return {(kind, each.id) for kind, one in conditions.items() for each in collection._backend.scroll(one, ["kind"])}


@pytest.fixture
def opened(place, monkeypatch):
    """A function that opens a collection of short chunks with an encoder of this speed."""
    collections = []

    def opened(name: str, speed: str) -> tuple[Collection, SlowEncoder]:
        encoder = SlowEncoder(SPEEDS[speed], max_tokens=24)
        encoder.on_this_clock(monkeypatch)
        collections.append(Collection.open(name, encoder=encoder, chunking=ChunkSettings(max_tokens=24), **place))
        encoder.encoded.clear()
        return collections[-1], encoder

    yield opened
    for each in collections:
        each.close()


@pytest.mark.parametrize(
    ("speed", "documents"),
    [
        pytest.param("even", HUGE, id="huge"),
        pytest.param("even", SMALL, id="small", marks=pytest.mark.slow),
        pytest.param("by length", HUGE, id="huge, by length", marks=pytest.mark.slow),
        pytest.param("by chance", SMALL, id="small, by chance", marks=pytest.mark.slow),
        pytest.param("a second each", FEW, id="a second each", marks=pytest.mark.slow),
        pytest.param("fast", SMALL, id="fast", marks=pytest.mark.slow),
    ],
)
def test_a_death_at_any_write_costs_at_most_five_seconds(opened, documents, speed, monkeypatch):
    undisturbed, encoder = opened("undisturbed", speed)
    undisturbed.ingest(documents.items())
    expected, texts = points(undisturbed), set(encoder.encoded)
    assert len(texts) == len(encoder.encoded) == (30 if documents is FEW else 150)
    costs = []
    collection, encoder = opened("notes", speed)
    for step in accumulate(repeat(0), lambda last, _: 8 * last // 5 + 1):  # the ingest dies again and again, ever later
        encoder.encoded.clear()
        with monkeypatch.context() as patched:
            die_at(step, done=bool(step % 2), backend=collection._backend, monkeypatch=patched)
            try:
                collection.ingest(documents.items())
            except Died:
                pass
            else:
                break
        finished = collection.ingest(documents.items())
        assert finished.failed == 0
        assert set(encoder.encoded) == texts
        costs.append(encoder.repeated())
        assert points(collection) == expected, step
        assert collection.verify().sound, step
        collection.delete(list(documents))
        assert points(collection) == set()
    assert max(costs) <= WORK_SECONDS, costs
    if speed != "fast":
        assert len(costs) > 3
        assert max(costs) > 1, "some of them cost something"


def test_documents_that_are_committed_together_share_a_revision(opened):
    collection, _ = opened("notes", "even")
    collection.ingest(SMALL.items())
    stored = collection._backend.scroll([field_is("kind", "record")], ["revision"])
    revisions = [each.payload["revision"] for each in stored]
    assert len(revisions) == len(SMALL)
    assert len(set(revisions)) < len(SMALL) / 2


def test_deaths_one_after_another_bring_a_huge_document_to_its_end(opened, monkeypatch):
    collection, encoder = opened("notes", "even")
    deaths = 0
    while deaths < 20 and not collection.find():
        before = encoder.repeated()
        with monkeypatch.context() as patched:
            die_at(5, done=True, backend=collection._backend, monkeypatch=patched)
            try:
                collection.ingest(HUGE.items())
            except Died:
                deaths += 1
                assert encoder.repeated() - before <= WORK_SECONDS
    assert 2 < deaths < 20
    (document,) = collection.get(["huge"])
    assert document.text.split() == HUGE["huge"].split()
    assert collection.ingest(HUGE.items()).unchanged == 1
    assert collection.verify().sound
    assert points(collection) == {each for each in points(collection) if each[0] != "intent"}


def test_what_was_written_of_another_version_goes(opened, monkeypatch):
    collection, encoder = opened("notes", "even")
    with monkeypatch.context() as patched:
        die_at(12, done=True, backend=collection._backend, monkeypatch=patched)
        with pytest.raises(Died):
            collection.ingest(HUGE.items())
    written = collection.count()
    assert written > 30
    encoder.encoded.clear()
    other = {"huge": "\n\n".join([part(0), part(1), part(900)])}
    assert collection.ingest(other.items()).encoded == 1, "the parts that stayed are not encoded again"
    assert collection.count() == 3
    assert collection.verify().sound


def test_a_bad_text_takes_back_what_was_written_of_its_document(opened, monkeypatch):
    collection, encoder = opened("notes", "even")
    encode = encoder.encode_document

    def broken(texts):
        return encode(texts) * (0 if any("part 140 " in text for text in texts) else 1)

    monkeypatch.setattr(encoder, "encode_document", broken)
    stages = []
    stage = collection._catalog.stage
    monkeypatch.setattr(collection._catalog, "stage", lambda *args: (stages.append(args), stage(*args)))
    report = collection.ingest([*HUGE.items(), ("other", "words")])
    assert (report.new, report.failed, report.failures[0][0]) == (1, 1, "huge")
    assert len(stages) > 5
    assert points(collection) == {each for each in points(collection) if each[0] != "intent"}
    assert (collection.count(), collection.find()) == (1, ["other"])
    assert collection.verify().sound


def test_another_writer_may_commit_a_document_that_is_written_in_parts(opened, place, monkeypatch):
    collection, encoder = opened("notes", "even")
    other, _ = opened("notes", "fast")
    commit = collection._backend.commit
    shorter = {"huge": "\n\n".join(map(part, range(140)))}

    def late(*args):
        monkeypatch.setattr(collection._backend, "commit", commit)
        assert other.ingest(shorter.items()).new == 1
        return commit(*args)

    if collection._backend.exclusive:
        pytest.skip("an embedded collection has one writer")
    monkeypatch.setattr(collection._backend, "commit", late)
    encoder.on_this_clock(monkeypatch)
    report = collection.ingest(HUGE.items())
    assert (report.updated, report.failed) == (1, 0)
    assert collection.count() == 150
    assert collection.verify().sound


def test_chunks_that_vanish_before_the_commit_are_written_again(opened, monkeypatch):
    collection, _ = opened("notes", "even")
    stage = collection._catalog.stage

    def taken(draft, points):
        stage(draft, points)
        collection._backend.delete(draft.chunks[:1])

    monkeypatch.setattr(collection._catalog, "stage", taken)
    collection.ingest(HUGE.items())
    assert collection.count() == 150
    assert collection.verify().sound


def test_the_pace_follows_the_encoder(monkeypatch):
    now = 0.0
    monkeypatch.setattr("twinvec_qdrant.ingest.pace.clock", lambda: now)
    pace = Pace(object())
    texts = ["x" * 936] * 1000  # a weight of 1000 each
    sizes = []
    for _ in range(12):
        pace.begin()
        taken = pace.next(texts)
        sizes.append(len(taken))
        now += len(taken) / 50
        pace.took(taken, len(taken) / 50)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, *[int(50 * PORTION_SECONDS)] * 5]
    assert pace.next(["x" * 10**7] * 3) == ["x" * 10**7], "a text that takes too long is alone"
    limited = Pace(type("Limited", (), {"max_tokens": 8})())
    limited.took(["x" * 10**6], 0.01)
    limited.begin()
    assert len(limited.next(["x" * 10**6] * 5)) == 2, "no encoder reads more than its limit"
