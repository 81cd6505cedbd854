"""Token states beside the vectors: written, kept, moved, migrated, copied and checked with them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from stand_in import schema
from stand_in.strict import RefusedError
from twinvec import Encoder, MaxSimReranker, RetrieveRerank
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import unknown_texts
from twinvec_qdrant import ChunkSettings, Collection, IndexSettings, encoders
from twinvec_qdrant.search.maxsim import StoredMaxSim
from twinvec_qdrant.stores.points import states_name
from words import StateEncoder, WordEncoder

QUERY = "a note about topic 3"
NOTES = {f"n{number:02}": f"note {number} about topic {number % 7} and {number % 5}" for number in range(40)}


@pytest.fixture
def encoder() -> StateEncoder:
    return StateEncoder(max_tokens=8)


@pytest.fixture
def kept(place, encoder):
    """A collection that keeps token states, filled."""
    with Collection.open("notes", encoder=encoder, late_interaction=True, **place) as collection:
        assert collection.ingest(NOTES.items()).new == len(NOTES)
        yield collection


def check(collection: Collection, encoder: StateEncoder, notes=NOTES) -> None:
    """The collection reranks as if it computed the states of its texts, and computes none."""
    hits = collection.search(QUERY, len(notes))
    assert {hit.id for hit in hits} == notes.keys()
    computed = {hit.id: hit.scores for hit in MaxSimReranker(encoder).rerank(QUERY, hits)}
    encoder.states_of.clear()
    found = RetrieveRerank(collection, collection.maxsim(), len(notes)).search(QUERY, len(notes))
    assert encoder.states_of == []
    assert {hit.id for hit in found} == notes.keys()
    for hit in found:
        assert dict(hit.scores) == pytest.approx(computed[hit.id], abs=1e-3)
    assert len({round(hit.scores["maxsim"], 3) for hit in found}) > 3
    assert collection.verify().sound


@pytest.mark.parametrize("prompt", ["", "text of a page: "])
def test_a_text_is_unknown_if_most_of_its_own_words_are(prompt):
    english = Encoder("default", prompts={"document": prompt}, max_tokens=21)
    known = ["ราคา price", "the price 🎉", "", " \n", "Größe"]
    unknown = ["ราคา", "ราคา a", "ตั้งแต่เวลา (5.00)", "საქართველოს დედაქალაქი თბილისია", "ሰላም ለዓለም"]
    texts = [*known, *unknown, "ราคา " * 20, "price " * 20]
    expected = [*[(False, False)] * 5, *[(False, True)] * 5, (True, True), (True, False)]
    assert encoders.as_read(english, texts) == expected
    assert unknown_texts(english, texts) == [unknown for _, unknown in expected]
    assert unknown_texts(object(), texts) == [False] * len(texts)
    assert encoders.as_read(object(), texts) == [(False, False)] * len(texts)


def dense_names(collection: Collection) -> int:
    """How many dense vectors, token states among them, the store has room for."""
    if collection._backend.exclusive:
        return len(collection._backend._folder.dense_names())
    return len(collection._backend._client.get_collection("notes").config.params.vectors)


def test_states_are_kept_with_the_chunks(kept, encoder):
    check(kept, encoder)
    assert kept.info()["late_interaction"]["bytes_a_token"] == 2 * encoder.states_dim
    chunks = [point.id for point in kept._backend.scroll([])]
    sizes = [states.nbytes for states in kept._backend.states(chunks, "dense").values()]
    assert len(sizes) == kept.count() == len(NOTES)
    assert kept.info()["late_interaction"]["bytes_a_chunk"] == pytest.approx(np.mean(sizes), abs=20)


def test_what_only_moved_keeps_its_states(kept, encoder):
    encoder.states_of.clear()
    changed = dict(NOTES, n03="a new text", n05=NOTES["n05"])
    report = kept.ingest([{"id": name, "text": text, "team": "x"} for name, text in changed.items()])
    assert (report.updated, report.encoded) == (len(NOTES), 1)
    assert encoder.states_of == ["a new text"]
    check(kept, encoder, changed)


def test_hits_that_the_collection_does_not_have_are_computed(kept, encoder):
    hits = kept.search(QUERY, 3)
    other = hits[0].__class__("elsewhere", "a note from elsewhere", 0.5)
    shadowed = hits[1].__class__("n07#x", hits[1].text, 0.4, {}, {"source": ["a list"]})
    expected = MaxSimReranker(encoder).rerank(QUERY, [*hits, other, shadowed])
    encoder.states_of.clear()
    found = kept.maxsim().rerank(QUERY, [*hits, other, shadowed])
    assert "a note from elsewhere" in encoder.states_of
    assert [hit.id for hit in found] == [hit.id for hit in expected]
    assert [hit.scores["maxsim"] for hit in found] == pytest.approx(
        [hit.scores["maxsim"] for hit in expected], abs=1e-3
    )
    assert kept.maxsim().rerank(QUERY, []) == []
    many = kept.maxsim().rerank_many([QUERY, "elsewhere", "nothing"], [hits, [other], []])
    assert [len(found) for found in many] == [3, 1, 0]
    assert [hit.id for hit in kept.maxsim().rerank(QUERY, [other])] == ["elsewhere"]


def test_a_query_without_tokens_scores_nothing(kept, encoder, monkeypatch):
    hits = kept.search(QUERY, 3)
    encode_tokens = encoder.encode_tokens

    def without_special_tokens(texts, **options):
        states = encode_tokens(texts, **options)
        return [states_TD if text else states_TD[:0] for text, states_TD in zip(texts, states, strict=True)]

    monkeypatch.setattr(encoder, "encode_tokens", without_special_tokens)
    for queries in (["", QUERY], [""]):
        first, *others = kept.maxsim().rerank_many(queries, [hits] * len(queries))
        assert [hit.scores["maxsim"] for hit in first] == [0, 0, 0]
        assert all(hit.scores["maxsim"] > 0 for found in others for hit in found)


def test_chunks_and_equal_texts_are_told_apart(kept, encoder):
    kept.ingest([("long", "\n\n".join(f"part {part} about topic 3 and more" for part in range(9)))])
    kept.ingest([("same", NOTES["n03"])])
    hits = kept.search(QUERY, 60, group=False)
    assert len({hit.id for hit in hits}) > len(NOTES) + 5
    expected = {hit.id: hit.scores["maxsim"] for hit in MaxSimReranker(encoder).rerank(QUERY, hits)}
    encoder.states_of.clear()
    found = {hit.id: hit.scores["maxsim"] for hit in kept.maxsim().rerank(QUERY, hits)}
    assert encoder.states_of == []
    assert found == pytest.approx(expected, abs=1e-3)


def test_another_model_brings_its_own_states(kept, place):
    other = StateEncoder(states_dim=40, seed=1, dim=48, max_tokens=8)
    assert kept.migrate(other).encoded == len(NOTES)
    kept.close()
    with Collection.open("notes", encoder=other, **place) as collection:
        check(collection, other)
        assert collection.info()["late_interaction"]["dim"] == 40
        collection.ingest([("fresh", "a fresh note")])
        assert dense_names(collection) == 4
        assert collection.drop_others() == ["words-0"]
        assert dense_names(collection) == 2, "the vectors and the states of one model"
        check(collection, other, {**NOTES, "fresh": "a fresh note"})
        with pytest.raises(ConfigurationError, match="gives no token states"):
            collection.migrate(WordEncoder(seed=2, max_tokens=8))


def test_a_copy_has_the_states_too(kept, encoder, tmp_path):
    there = {"path": tmp_path / "copy"} if "client" in kept._location else {"client": QdrantClient(":memory:")}
    encoder.states_of.clear()
    assert kept.push(**there).copied == len(NOTES)
    assert encoder.states_of == []
    with Collection.open("notes", encoder=encoder, **there) as copy:
        check(copy, encoder)
    with Collection.open("plain", encoder=encoder, **there) as plain:
        with pytest.raises(ConfigurationError, match=r"keeps no token states, but the pushed .* keeps token states"):
            kept.push(name="plain", **there)
        assert plain.count() == 0


def test_lost_states_are_found_and_written_again(kept, encoder):
    chunk = kept._catalog.records(["n04"])["n04"].chunks[0]
    point = kept._backend.retrieve([chunk], None, "dense")[chunk]
    kept._backend.upsert([point])  # the same without states
    assert kept.verify().incomplete == ["n04"]
    kept.verify(repair=True)
    assert kept.ingest(NOTES.items()).updated == 1
    check(kept, encoder)


def test_states_of_many_texts_are_encoded_some_at_a_time(monkeypatch):
    encoder, asked = StateEncoder(), []

    def encode_tokens(texts, **options):
        asked.append(len(texts))
        return StateEncoder.encode_tokens(encoder, texts, **options)

    monkeypatch.setattr(encoder, "encode_tokens", encode_tokens)
    texts = [f"text {row} {'word ' * (row % 4)}" for row in range(150)]
    found = encoders.token_states(encoder, texts, encoder.states_dim)
    assert asked == [64, 64, 22]
    for text, states in zip(texts, found, strict=True):
        np.testing.assert_allclose(states, StateEncoder().encode_tokens([text], prompt="document")[0], atol=1e-3)


@pytest.mark.slow
def test_another_index_leaves_states_as_they_are(tmp_path, encoder):
    with Collection.open("notes", tmp_path, encoder=encoder, late_interaction=True) as collection:
        collection.ingest(NOTES.items())
        for settings in (IndexSettings("int8"), IndexSettings("binary"), IndexSettings()):
            collection.reindex(settings)
            check(collection, encoder)
        stored = json.loads((collection._backend._folder.shard / "edge_config.json").read_text())["vectors"]
        states = stored[states_name("dense")]
        assert (states["datatype"], states["hnsw_config"]["m"]) == ("float16", 0)
        assert "quantization_config" not in states


def test_what_cannot_work_is_refused(place, encoder, monkeypatch):
    with pytest.raises(ConfigurationError, match="gives no token states"):
        Collection.open("notes", encoder=WordEncoder(max_tokens=8), late_interaction=True, **place)
    with Collection.open("notes", encoder=encoder, **place) as plain:
        assert plain.info()["late_interaction"] is None
        assert not isinstance(plain.maxsim(), StoredMaxSim)
        with pytest.raises(ConfigurationError, match="keeps no token states"):
            Collection.open("notes", encoder=encoder, late_interaction=True, **place)
    options = {"encoder": encoder, "late_interaction": True, "chunking": ChunkSettings(enabled=False)}
    with Collection.open("whole", **options, **place) as whole:
        with pytest.raises(ConfigurationError, match="leave vectors out"):
            whole.ingest([("a", "text")], vectors={"a": [1.0] * encoder.dim})
        with pytest.raises(ConfigurationError, match="keeps token states"):
            Collection.open("whole", encoder=encoder, late_interaction=False, **place)
        monkeypatch.setattr(encoders, "MAX_NUMBERS", 5 * encoder.states_dim)
        report = whole.ingest([("short", "two words"), ("long", "many " * 20)])
        assert (report.new, report.failed) == (1, 1)
        assert "cut shorter chunks" in report.failures[0][1]
    wordy = WordEncoder(max_tokens=8)
    with (
        Collection.open("notes", encoder=wordy, **place) as plain,
        pytest.raises(ConfigurationError, match="gives no tok"),
    ):
        plain.maxsim()


def test_token_states_are_limited_to_what_a_server_takes():
    states = [[0.0] * 1024] * 1024  # 1,048,576 numbers
    point = models.PointStruct(id=1, vector={"dense-states": states})
    with pytest.raises(RefusedError, match="must be less than 1048576"):
        schema.check_vectors([point], needed=False)
    point.vector["dense-states"] = [*states[:-1], states[-1][1:]]
    schema.check_vectors([point], needed=False)
    assert encoders.MAX_NUMBERS == 1024 * 1024 - 1


def test_truncated_probes_are_no_texts_of_the_user(tiny_model, tmp_path, caplog):
    place = {"name": "notes", "path": tmp_path, "chunking": ChunkSettings(enabled=False)}
    Collection.open(encoder=Encoder(tiny_model("bert"), max_tokens=8), **place).close()
    with Collection.open(encoder=Encoder(tiny_model("bert"), max_tokens=8), **place) as notes:
        notes.ingest([("long", "many words " * 20)])
        notes.ingest([("longer", "more words " * 20)])
    assert caplog.text.count("1 of 1 distinct texts exceed the 8-token limit") == 1
    assert caplog.text.count("exceed") == 1


def test_the_commands(twinvec, tiny_model, tmp_path):
    notes = tmp_path / "notes.jsonl"
    notes.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in NOTES.items()))
    place = ("--collection", "notes", "--path", tmp_path / "store")
    assert twinvec("ingest", notes, *place, "--model", tiny_model("bert"), "--late-interaction").code == 0
    size = json.loads(twinvec("info", *place, "--json").out)["late_interaction"]
    assert size["bytes_a_chunk"] > size["bytes_a_token"] == 2 * size["dim"] > 0
    done = twinvec("search", QUERY, *place, "--rerank", "maxsim", "--json")
    assert all("maxsim" in hit["scores"] for hit in json.loads(done.out)["hits"])
    assert twinvec("info", *place).code == 0
