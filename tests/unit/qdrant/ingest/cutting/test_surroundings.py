"""What is embedded with a chunk: its headings, and the text around it if the collection's settings say so."""

from __future__ import annotations

import json

import pytest
from qdrant_client import QdrantClient

import office_files
from cases import slow
from twinvec import Document
from twinvec.errors import ConfigurationError
from twinvec_qdrant import ChunkSettings, Collection, read_source
from twinvec_qdrant.ingest.cutting.chunking import Chunk, Chunker
from twinvec_qdrant.ingest.cutting.surroundings import surrounded
from twinvec_qdrant.maintenance.verification import heal
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.stores.points import Point
from words import StateEncoder, WordEncoder

SENTENCES = [
    "The fee for berths was set in spring.",
    "It was raised again in May.",
    "Nobody on the board objected to that.",
    "Ships of over forty metres pay more.",
    "Rowing boats pay nothing at all.",
]
TEXT = " ".join(SENTENCES)
AROUND = ChunkSettings(max_tokens=12, surroundings=20)


def cut(text: str, title: str = "", tokens: int = 64, name: str = "fees", **settings) -> list[Chunk]:
    settings = {"max_tokens": 13, "surroundings": 20, **settings}
    return Chunker(WordEncoder(max_tokens=tokens), ChunkSettings(**settings)).chunks(Document(name, text, title))


def stored(collection: Collection) -> dict[str, Point]:
    ids = [each.id for each in collection._backend.scroll([CHUNKS])]
    return dict(collection._backend.retrieve(ids, None, stored_description(collection._backend).vector))


def opened(place: dict, encoder: WordEncoder | None = None, **options) -> Collection:
    encoder = encoder or WordEncoder(max_tokens=64)
    return Collection.open("harbour", encoder=encoder, **{"chunking": AROUND, **place, **options})


def write_formats(folder, *, converted: bool) -> dict[str, str]:
    """Write files whose chunks stand below headings, and return the heading of each."""
    sentences = "It was raised in May. " * 12
    record = {"id": "fees", "title": "Harbour of Ely", "text": sentences}
    if converted:
        (folder / "page.html").write_text(f"<h1>Harbour of Ely</h1><p>{sentences}</p>")
        office_files.write_pdf(folder / "minutes.pdf", [["Minutes of Ely"], ["It was raised in May."] * 12])
        return {"page.html": "Harbour of Ely", "minutes.pdf": ""}  # the converter gives no headings of a PDF
    (folder / "records.jsonl").write_text(json.dumps(record))
    (folder / "guide.md").write_text(f"---\ntitle: Harbour of Ely\n---\n# Fees\n\n{sentences}")
    (folder / "ely.py").write_text("class Berth:\n    def raised(self):\n" + "        self.may += 1\n" * 12)
    return {
        "records.jsonl/fees": "Harbour of Ely",
        "guide.md": "Harbour of Ely > Fees",
        "ely.py": "ely.py > class Berth > def raised",
    }


@pytest.mark.parametrize("converted", [False, slow(True)])
def test_every_chunk_of_every_format_is_embedded_and_found_below_its_title_and_headings(tmp_path, converted):
    folder = tmp_path / "texts"
    folder.mkdir()
    headings = write_formats(folder, converted=converted)
    encoder = WordEncoder(max_tokens=40)
    with Collection.open("all", tmp_path / "store", encoder=encoder) as collection:
        report = collection.ingest(read_source(folder))
        assert (report.new, report.failures) == (len(headings), [])
        payloads = [point.payload for point in stored(collection).values()]
        by_words = [hit.id for hit in collection.search("Ely", mode="sparse", limit=50, group=False)]
    for source, heading in headings.items():
        chunks = [own for own in payloads if own["source"] == source]
        assert len([own for own in chunks if own["heading"] == heading]) > 1, source
        for own in chunks:
            assert own["text"].startswith(f"{own['heading']}\n\n" if own["heading"] else "")
            assert own["text"] in encoder.encoded
            assert (f"{source}#{own['position']}" in by_words) == ("ely" in own["text"].lower())


def test_a_chunk_is_embedded_once_more_between_the_sentences_around_it():
    chunks = cut(TEXT, "Harbour")
    assert [each.text for each in chunks] == [f"Harbour\n\n{sentence}" for sentence in SENTENCES]
    assert chunks[2].embedded == f"{chunks[2].text}\n\n" + " ".join(SENTENCES[1:4])
    assert chunks[0].embedded == f"{chunks[0].text}\n\n" + " ".join(SENTENCES[:3])
    assert len({each.embedded for each in chunks}) == len(chunks)


def test_without_the_setting_and_for_whole_documents_the_text_is_embedded():
    for chunks in (cut(TEXT, surroundings=0), cut(TEXT, max_tokens=None), cut(SENTENCES[0])):
        assert {each.in_context for each in chunks} == {None}
        assert [each.embedded for each in chunks] == [each.text for each in chunks]


def test_surroundings_stay_below_their_heading():
    first, *_, last = cut(f"# Fees\n\n{TEXT}\n\n# Staff\n\n{'The crew is paid by the day. ' * 3}", name="a.md")
    assert first.embedded.startswith("Fees\n\n")
    assert last.embedded.startswith("Staff\n\n")
    assert "crew" not in first.embedded
    assert "fee" not in last.embedded


@pytest.mark.parametrize("limit", [10, 12, 14, 20, 30, 64])
@pytest.mark.parametrize("overlap", [0, 4])
def test_surroundings_take_what_room_the_model_has_left(limit, overlap):
    text = f"{TEXT} A line without an end {'and on ' * 30} 日本語のテキスト。もう一つ。\n\nx = {{1: 'a', 2: 'b'}}\n" * 3
    chunks = cut(text, "Harbour", limit, max_tokens=10, overlap=overlap)
    counts = WordEncoder(max_tokens=limit).tokenizer.count([each.embedded for each in chunks])
    assert len(chunks) > 20
    assert counts.max() <= limit
    assert any(each.in_context for each in chunks) or limit < 30
    assert not any(each.truncated for each in chunks)


def test_where_no_sentence_ends_surroundings_end_between_words():
    text = " ".join(f"word{number}" for number in range(40))
    chunks = cut(text, max_tokens=8, surroundings=6)
    known = set(text.split())
    assert len(chunks) > 4
    assert all(set(each.embedded.split()) <= known for each in chunks)
    assert len(chunks[2].embedded.split()) == 2 * len(chunks[2].text.split()) + 6


def test_a_piece_that_is_not_in_the_section_stays_as_it_is():
    tokenizer = WordEncoder(max_tokens=64).tokenizer.for_chunking()
    pieces = ["One.", "absent", "Three."]
    assert list(surrounded("One. Two. Three.", pieces, [50] * 3, 2, tokenizer)) == [
        "One. Two.",
        "absent",
        "Two. Three.",
    ]
    assert list(surrounded("One. Two. Three.", ["Two."], [0], 8, tokenizer)) == ["Two."]


def test_hits_show_the_chunk_and_neighbours_follow_it(place):
    encoder = WordEncoder(max_tokens=64)
    with opened(place, encoder) as collection:
        collection.ingest([Document("fees", TEXT)])
        assert any(" ".join(SENTENCES[:2]) in text for text in encoder.encoded)
        for mode in ("dense", "sparse"):
            found = [hit.text for hit in collection.search("raised May", limit=9, mode=mode, group=False)]
            assert found[0] == SENTENCES[1]
            assert set(found) >= set(SENTENCES[:3])
            assert set(found) <= set(SENTENCES)
        assert all("embedded" not in hit.payload for hit in collection.search("raised May", group=False))
        assert collection.get(["fees"])[0].text == "\n\n".join(SENTENCES)


def test_the_same_input_gives_the_same_points_and_an_ingest_again_encodes_nothing(place, tmp_path):
    with opened(place) as collection, opened({"path": tmp_path / "other"}) as other:
        for each in (collection, other):
            each.ingest([Document("fees", TEXT)])
        assert stored(collection).keys() == stored(other).keys()
        assert collection.info()["chunking"]["surroundings"] == 20
    encoder = WordEncoder(max_tokens=64)
    with opened(place, encoder, chunking=None) as collection:
        before = set(stored(collection))
        encoder.encoded.clear()
        assert collection.ingest([Document("fees", TEXT)]).unchanged == 1
        assert encoder.encoded == []
        report = collection.ingest([Document("fees", f"{TEXT} Nor do canoes.")])
        changed = set(stored(collection)) - before
        assert (report.updated, report.encoded, len(changed)) == (1, 2, 2)  # the new one, and the one before it
        assert collection.verify().sound


def by_words(collection: Collection) -> list:
    hits = collection.search("raised in May", limit=9, mode="sparse", group=False)
    return [(hit.id, pytest.approx(hit.score, rel=1e-5)) for hit in hits]


def test_all_that_encodes_or_weighs_again_reads_the_same(place, tmp_path):
    encoder, following = WordEncoder(max_tokens=64), WordEncoder(1, max_tokens=64)
    other = {"path": tmp_path / "copy"}
    with opened(place, encoder) as collection:
        encoder.encoded.clear()
        collection.ingest([Document("fees", TEXT)])
        texts, points, words = set(encoder.encoded), stored(collection), by_words(collection)
        assert len(texts) == len(points) == len(SENTENCES)
        assert len(words) > 1
        collection._catalog.weights.average_length *= 2
        collection._catalog.weights.rebalance()
        assert by_words(collection) == words
        backend = collection._backend
        backend.upsert([Point(point.id, point.payload) for point in points.values()])  # without vectors
        encoder.encoded.clear()
        heal(collection._catalog, stored_description(backend), encoder)
        assert set(encoder.encoded) == texts
        assert by_words(collection) == words
        for key, point in stored(collection).items():
            assert point.dense @ points[key].dense > 0.9999
        collection.push(**other)
        assert collection.migrate(following).switched
        assert texts < set(following.encoded)
    with opened(other, encoder, chunking=None) as copy:
        assert stored(copy).keys() == points.keys()
        assert by_words(copy) == words
        assert copy.ingest([Document("fees", TEXT)]).unchanged == 1


def test_a_changed_context_is_damage(place):
    with opened(place) as collection:
        collection.ingest([Document("fees", TEXT)])
        point = next(each for each in stored(collection).values() if "embedded" in each.payload)
        changed = {**point.payload, "embedded": "Something else."}
        collection._backend.upsert([Point(point.id, changed, point.dense, vector=point.vector)])
        assert collection.verify(repair=True).incomplete == ["fees"]
        assert collection.ingest([Document("fees", TEXT)]).encoded == 1
        assert collection.verify().sound


def test_token_states_are_those_of_the_chunk(place):
    encoder = StateEncoder(max_tokens=64)
    with opened(place, encoder, late_interaction=True) as collection:
        collection.ingest([Document("fees", TEXT)])
        assert encoder.states_of[-len(SENTENCES) :] == SENTENCES
        assert collection.migrate(StateEncoder(seed=1, max_tokens=64)).switched
        hits = collection.search("raised in May", limit=5, group=False)
        assert collection.maxsim().rerank("raised in May", hits)[0].text == SENTENCES[1]


def test_surroundings_change_by_reindex_and_the_next_ingest(place):
    plain = ChunkSettings(max_tokens=12)
    with opened(place, chunking=plain) as collection:
        collection.ingest([Document("fees", TEXT), Document("short", SENTENCES[0])])
        assert "surroundings" not in collection.info()["chunking"]
    with pytest.raises(ConfigurationError, match="with 20 tokens of the text around them"):
        opened(place)
    with opened(place, chunking=None) as collection:
        with pytest.raises(ConfigurationError, match="only code, pages and surroundings"):
            collection.reindex(chunking=ChunkSettings(max_tokens=13, surroundings=20))
        before = stored(collection)
        collection.reindex(chunking=AROUND)
        assert stored(collection).keys() == before.keys()
    with opened(place) as collection:
        report = collection.ingest([Document("fees", TEXT), Document("short", SENTENCES[0])])
        assert (report.updated, report.encoded) == (2, len(SENTENCES))
        assert all("embedded" in each.payload for each in stored(collection).values() if each.id not in before)
        assert collection.count() == len(before)
        collection.reindex(chunking=plain)
        collection.ingest([Document("fees", TEXT), Document("short", SENTENCES[0])])
        assert stored(collection).keys() == before.keys()


@pytest.mark.parametrize("wrong", [-1, 2.5, "some", True])
def test_surroundings_are_a_number_of_tokens_of_chunks(wrong):
    with pytest.raises(ConfigurationError, match="surroundings"):
        ChunkSettings(surroundings=wrong)
    with pytest.raises(ConfigurationError, match="surroundings"):
        ChunkSettings(enabled=False, surroundings=8)
    assert ChunkSettings.from_dict(AROUND.as_dict()) == AROUND


def test_a_push_to_a_collection_with_other_surroundings_is_refused(tmp_path):
    client = QdrantClient(":memory:")
    with opened({"path": tmp_path}) as collection:
        with opened({"client": client}, chunking=ChunkSettings(max_tokens=10)):
            pass
        with pytest.raises(ConfigurationError, match="chunking"):
            collection.push(client=client)
