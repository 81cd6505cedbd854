"""A collection in another store: the same answers, nothing encoded, and no harm in dying half-way."""

from __future__ import annotations

from itertools import count

import pytest
from qdrant_client import QdrantClient

from cases import slow
from deaths import Died, die_at
from stand_in import StandIn
from twinvec.errors import ConfigurationError, DocumentError, SpaceMismatchError, StoreLimitError
from twinvec_qdrant import ChunkSettings, Collection, IndexSettings, drop_collection
from twinvec_qdrant.maintenance import push
from twinvec_qdrant.records import payload_indexes
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.roots import Roots
from twinvec_qdrant.records.schema import record_id
from words import WordEncoder

GUIDES = {
    f"guide{number}": "\n\n".join(f"guide {number} part {part} on tea " + "word " * 9 for part in range(3))
    for number in range(6)
}


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder(max_tokens=16)


@pytest.fixture
def guides(place, encoder):
    index, chunking = IndexSettings("int8"), ChunkSettings(max_tokens=16)
    with Collection.open(
        "guides", encoder=encoder, chunking=chunking, index=index, tenant_key="owner", **place
    ) as opened:
        rows = [{"id": name, "text": text, "title": "A guide", "owner": "us"} for name, text in GUIDES.items()]
        assert opened.ingest([*rows, {"id": "empty", "text": "", "owner": "us"}]).new == 7
        opened.notes("kept").put({"a": {"note": 1}})
        yield opened


@pytest.fixture(params=["embedded", slow("client")])
def other(request, tmp_path):
    """The other store."""
    return {"path": tmp_path / "other"} if request.param == "embedded" else {"client": QdrantClient(":memory:")}


def answers(collection: Collection, encoder: WordEncoder) -> list:
    return [
        (hit.id, hit.text, hit.payload, pytest.approx(hit.scores["dense"], abs=1e-5))
        for hit in collection.search("guide 3 part 2", 50, "dense", {"owner": "us"}, group=False)
    ]


def test_a_copy_answers_as_the_original_and_nothing_is_encoded(guides, other, encoder):
    encoder.encoded.clear()
    report = guides.push(**other)
    assert (report.copied, report.chunks, report.unchanged, report.missed) == (7, guides.count(), 0, [])
    assert encoder.encoded == []
    with Collection.open("guides", encoder=encoder, **other) as copy:
        expected = answers(guides, encoder)
        assert len(expected) == guides.count() > 18
        assert answers(copy, encoder) == expected
        words = [hit.id for hit in guides.search("tea", 50, "sparse", {"owner": "us"}, group=False)]
        assert sorted(hit.id for hit in copy.search("tea", 50, "sparse", {"owner": "us"}, group=False)) == sorted(words)
        here, there = guides.info(), copy.info()
        for name in ("points", "sources", "space", "chunking", "index", "tenant_key", "language"):
            assert here[name] == there[name], name
        assert list(copy.notes("kept").find()) == [("a", {"note": 1})]
        assert copy.verify().sound
        rows = [{"id": name, "text": text, "title": "A guide", "owner": "us"} for name, text in GUIDES.items()]
        assert copy.ingest(rows).unchanged == 6


def test_again_only_what_is_new_is_copied_and_back_again(guides, other, place, encoder):
    guides.push(**other)
    changed = GUIDES["guide1"].replace("part 2", "part two")
    guides.ingest([{"id": "guide1", "text": changed, "title": "A guide", "owner": "us"}])
    guides.delete(["guide2"])
    report = guides.push(**other)
    assert (report.copied, report.unchanged, report.deleted) == (1, 5, 0)
    assert 1 <= report.chunks < 6, "a chunk that is there is not copied again"
    assert guides.push(prune=True, **other).deleted == 1
    with Collection.open("guides", encoder=encoder, **other) as copy:
        assert answers(copy, encoder) == answers(guides, encoder)
        assert copy.verify().sound
        copy.ingest([{"id": "fresh", "text": "a fresh guide", "owner": "us"}])
        back = copy.push(**place)
        assert (back.copied, back.unchanged) == (1, 6)
    assert guides.find({"id": "fresh"}) == ["fresh"]


def test_documents_are_read_in_batches(guides, other, monkeypatch):
    asked = []
    retrieve = guides._backend.retrieve
    monkeypatch.setattr(guides._backend, "retrieve", lambda *args: asked.append(args) or retrieve(*args))
    assert guides.push(**other).copied == 7
    assert len(asked) == 3, "once for the sources, once for the records, once for the chunks"


def test_values_of_a_new_copy_are_not_looked_at_to_index_them(tmp_path, encoder, monkeypatch):
    looked: list[str] = []
    monkeypatch.setattr(payload_indexes, "misfit", lambda backend, path, kind: looked.append(path))
    with Collection.open("notes", tmp_path / "here", encoder=encoder, chunking=False) as collection:
        collection.ingest([{"id": "a", "text": "tea", "year": 2020}], source="main")
        looked.clear()
        collection.push(tmp_path / "there")
    assert looked == []


def test_notes_follow_the_original(guides, other, encoder):
    guides.push(**other)
    with Collection.open("guides", encoder=encoder, **other) as copy:
        copy.notes("own").put({"b": {}})
        guides.notes("kept").delete(["a"])
        guides.push(**other)
        assert len(list(copy.notes("kept").find())) == 1
        guides.push(prune=True, **other)
        assert [list(copy.notes(name).find()) for name in ("kept", "own")] == [[], []]


def test_an_empty_original_empties_no_copy_unless_that_is_said(guides, other, encoder):
    guides.push(**other)
    guides.delete(guides.find())
    with pytest.raises(DocumentError, match=r"remove all 7 documents of .*allow_empty"):
        guides.push(prune=True, **other)
    with Collection.open("guides", encoder=encoder, **other) as copy:
        assert len(copy.find()) == 7
        assert len(list(copy.notes("kept").find())) == 1
        assert guides.push(prune=True, allow_empty=True, **other).deleted == 7
        assert copy.find() == []
        assert guides.push(prune=True, **other).deleted == 0, "nothing is there to be removed"


def test_after_a_migration_the_vectors_in_force_are_pushed(guides, other, place):
    new = WordEncoder(seed=1, dim=48, max_tokens=16)
    guides.migrate(new)
    with Collection.open("guides", encoder=new, **place) as migrated:
        migrated.push(name="copies", **other)
        with Collection.open("copies", encoder=new, **other) as copy:
            assert answers(copy, new) == answers(migrated, new)
            assert copy.verify().sound


@pytest.mark.slow
@pytest.mark.parametrize("place", ["client"], indirect=True)
@pytest.mark.parametrize("other", ["client"], indirect=True)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_every_step_may_be_the_last(guides, other, encoder, done, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.maintenance.push._BATCH_CHUNKS", 6)
    expected, originals = answers(guides, encoder), guides.get(list(GUIDES))
    for step in count():
        name = f"copy{step}"
        with Collection.open(
            name, encoder=encoder, chunking=ChunkSettings(max_tokens=16), tenant_key="owner", **other
        ) as copy:
            with monkeypatch.context() as patched:
                patched.setattr("twinvec_qdrant.maintenance.push.open_target", lambda *args, to=copy._backend: to)
                patched.setattr(copy._backend, "close", lambda: None)
                die_at(step, done=done, backend=copy._backend, monkeypatch=patched)
                try:
                    guides.push(name=name, **other)
                except Died:
                    finished = False
                else:
                    finished = True
            assert all(each in originals for each in copy.get(list(GUIDES))), step
            guides.push(name=name, **other)
            assert answers(copy, encoder) == expected, step
            assert copy.verify().sound, step
        if finished:
            break
    assert step > 8


def test_what_does_not_belong_there_is_refused(guides, other, place, tmp_path):
    Collection.open("guides", encoder=WordEncoder(seed=1), chunking=False, **other).close()
    with pytest.raises(SpaceMismatchError, match=r"words-1.*words-0"):
        guides.push(**other)
    Collection.open("whole", encoder=WordEncoder(), chunking=False, tenant_key="owner", **other).close()
    with pytest.raises(ConfigurationError, match="chunking"):
        guides.push(name="whole", **other)
    with pytest.raises(ConfigurationError, match="onto itself"):
        guides.push(**place)
    with pytest.raises(ConfigurationError, match="push needs the other store"):
        guides.push()


def test_another_address_of_a_server_is_no_other_store(encoder):
    with (
        StandIn().running() as server,
        Collection.open("guides", url=server.url, encoder=encoder, chunking=False) as guides,
    ):
        guides.ingest([("tea", "green tea")])
        before = guides._backend.read_metadata()
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        assert elsewhere != server.url
        for other in ({"url": elsewhere}, {"client": QdrantClient(url=server.url, check_compatibility=False)}):
            with pytest.raises(ConfigurationError, match="onto itself"):
                guides.push(**other, prune=True)
        assert guides._backend.read_metadata() == before
        assert guides.push(url=elsewhere, name="copy").copied == 1
        with Collection.open("copy", url=server.url, encoder=encoder, create=False) as copy:
            assert "push" not in copy._backend.read_metadata()


def test_a_copy_that_cannot_be_made_is_closed(guides, tmp_path, monkeypatch):
    def refuse(self) -> None:
        raise StoreLimitError("no more indexes")

    with monkeypatch.context() as patched:
        patched.setattr("twinvec_qdrant.maintenance.push.PayloadIndexing.begin", refuse)
        with pytest.raises(StoreLimitError, match="no more indexes"):
            guides.push(tmp_path / "copy")
    drop_collection("guides", tmp_path / "copy")  # refuses a collection that is open
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_document_that_is_not_whole_is_missed_and_named(guides, other):
    record = guides._catalog.records(["guide4"])["guide4"]
    guides._backend.delete([record.chunks[1]])
    report = guides.push(**other)
    assert (report.copied, report.missed) == (6, ["guide4"])


def test_what_is_left_of_a_document_does_not_replace_a_whole_copy(guides, other, encoder):
    whole = guides.get(["guide4"])
    guides.push(**other)
    guides._backend.delete([guides._catalog.records(["guide4"])["guide4"].chunks[1]])
    guides.verify(repair=True)
    report = guides.push(prune=True, **other)
    assert (report.copied, report.deleted, report.missed) == (0, 0, ["guide4"])
    with Collection.open("guides", encoder=encoder, **other) as copy:
        assert copy.get(["guide4"]) == whole != guides.get(["guide4"])
    guides.ingest([{"id": "guide4", "text": GUIDES["guide4"], "title": "A guide", "owner": "us"}])
    assert guides.push(**other).missed == []


def test_what_lost_its_record_is_not_removed_from_the_copy(guides, other, encoder):
    whole = guides.get(["guide4"])
    guides.push(**other)
    guides._backend.delete([record_id("guide4")])
    guides.delete(["guide5"])
    report = guides.push(prune=True, **other)
    assert (report.deleted, report.missed) == (1, ["guide4"])
    with Collection.open("guides", encoder=encoder, **other) as copy:
        assert copy.get(["guide4"]) == whole


def died(*_, **__) -> None:
    raise Died


def test_documents_come_with_a_source_that_was_added_during_a_push_that_dies(guides, other, encoder, monkeypatch):
    """Without their source, they would count as documents of the first one, and be pruned with it."""
    joined = Roots.joined
    first = iter([True])

    def joined_meanwhile(roots: Roots, coming):
        copied = joined(roots, coming)
        if next(first, False):
            guides.ingest([{"id": "new", "text": "a new guide", "owner": "us"}], source="later")
        return copied

    guides.ingest([{"id": "old", "text": "an old guide", "owner": "us"}], source="first")  # its ids have no prefix
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(Roots, "joined", joined_meanwhile)
            patched.setattr(push._Push, "_copy_notes", died)
            with pytest.raises(Died):
                guides.push(**other)
        with Collection.open("guides", encoder=encoder, **other) as copy:
            there, roots = copy.find(), [root.name for root in copy.roots()]
            assert "old" in there
            assert ("later:new" in there) <= ("later" in roots)
    assert "later:new" in there


def test_pruned_documents_keep_their_source_as_long_as_they_are_there(guides, other, encoder, monkeypatch):
    guides.ingest([{"id": "old", "text": "an old guide", "owner": "us"}], source="first")
    guides.ingest([{"id": "old", "text": "an old minute", "owner": "us"}], source="gone")
    guides.push(**other)
    guides.delete_source("gone")

    with monkeypatch.context() as patched:
        patched.setattr(Catalog, "remove", died)
        with pytest.raises(Died):
            guides.push(prune=True, **other)
    with Collection.open("guides", encoder=encoder, **other) as copy:
        assert copy.find(source="gone") == ["gone:old"]
    assert guides.push(prune=True, **other).deleted == 1
    with Collection.open("guides", encoder=encoder, **other) as copy:
        assert [root.name for root in copy.roots()] == [root.name for root in guides.roots()] == ["first"]
