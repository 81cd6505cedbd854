"""Queries and texts of words that the model does not know: a hybrid search goes by words, and few are corrected."""

from __future__ import annotations

import json

import pytest

from twinvec import Encoder, MemoryIndex
from twinvec.retrieval.relevance import DEFAULT_MIN_RELEVANCE
from twinvec_qdrant import Collection
from twinvec_qdrant.records.description import stored_description

TEXTS = {
    "letters": "x" * 500,
    "rain": "ฝน ตก หนัก ทุก วัน",
    "price": "ราคา ข้าว สาม บาท",
    "tea": "tea is served at five in the garden",
    **{f"note {number}": f"the invoice {number} has been paid" for number in range(20)},
}
PRICE = "ราคา ข้าว"


@pytest.fixture(scope="module")
def encoder():
    return Encoder("default")


@pytest.fixture
def collection(place, encoder):
    with Collection.open("texts", encoder=encoder, chunking=False, **place) as opened:
        opened.ingest(TEXTS.items())
        yield opened


def check(hits):
    assert hits[0].id == "price"
    assert len(hits) == 10, "the candidates without a word of the query come behind"
    assert [hit.id for hit in hits if hit.relevance >= DEFAULT_MIN_RELEVANCE] == ["price"]
    by_vectors = max(hits, key=lambda hit: hit.scores["dense"])
    assert by_vectors.id != "price", "or this test shows nothing"


def test_words_decide_in_a_hybrid_search(collection, encoder):
    check(collection.search(PRICE))
    check(collection.search_vector(encoder.encode_query(PRICE), words=PRICE))
    assert [hit.id for hit in collection.search(PRICE, min_relevance=0.5)] == ["price"]
    assert [hit.id for hit in collection.search(PRICE, mode="sparse")] == ["price"]
    assert collection.search(PRICE, mode="dense")[0].id != "price", "as it was asked for"


def test_words_decide_in_a_memory_index(encoder):
    check(MemoryIndex(encoder, [{"id": name, "text": text} for name, text in TEXTS.items()]).search(PRICE))


def test_an_answer_that_the_model_knows_gives_the_query_a_vector(collection):
    question = "ดื่ม ชา"
    assert collection.search(question)[0].score < 0.1
    assert collection.search(question, answers=["tea in the garden"])[0].score > 1


def test_a_query_of_known_words_and_a_strange_one_keeps_its_vector(collection):
    first = collection.search("tea in the garden ราคา")[0]
    assert first.id == "tea"
    assert first.scores["fused"] > 1


def test_words_decide_in_a_collection_of_unknown_words(place, encoder):
    """Vectors of unknown words say nothing, so that words decide for every query, also for one of known words."""
    prices = {f"price {number}": f"ราคา ข้าว ใน ตลาด {number} บาท" for number in range(40)}
    texts = {**prices, "loader": "ติดตั้ง GRUB " + "หลัง จาก รีบูต ระบบ " * 20, "food": "food อาหาร grubby"}
    with Collection.open("thai", encoder=encoder, chunking=False, **place) as collection:
        collection.ingest(texts.items())
        hits = collection.search("GRUB")
        assert hits[0].id == "loader"
        assert hits[0].relevance == max(hit.relevance for hit in hits)
        assert max(hits, key=lambda hit: hit.scores["dense"]).id == "food", "or this test shows nothing"
        assert stored_description(collection._backend).calibration.unknown_texts
        with Collection.open("thai", encoder=encoder, **place) as again:
            assert [(hit.id, hit.score) for hit in again.search("GRUB")] == [(hit.id, hit.score) for hit in hits]


def test_what_older_versions_do_not_know_is_stored_only_where_it_holds(encoder, tmp_path):
    with Collection.open("notes", tmp_path, encoder=encoder) as collection:
        collection.ingest((f"note {number}", f"the invoice {number} has been paid by bank") for number in range(50))
    stored = json.loads((tmp_path / "notes" / "collection.json").read_text())
    assert stored["calibration"].keys() == {"version", "chunks", "unrelated", "near", "words"}


@pytest.mark.parametrize("mode", ["hybrid", "sparse"])
def test_of_words_that_the_model_cannot_judge_only_long_ones_are_corrected_by_one_letter(encoder, tmp_path, mode):
    texts = {"pool": "пула адресов", "warning": "предупреждение системы", "firmware": "прошивки для карт"}
    with Collection.open("manual", tmp_path, encoder=encoder, chunking=False) as collection:
        collection.ingest(texts.items())
        for strange in ("пала", "предубеждение", "прививки"):
            hits = collection.search(strange, mode=mode)
            assert max((hit.scores["sparse"] for hit in hits), default=0) == 0, strange
        assert collection.search("предупреждение", mode=mode)[0].id == "warning"
        typed = collection.search("предупреждние", mode=mode)[0]
        assert (typed.id, typed.scores["sparse"] > 0) == ("warning", True)
