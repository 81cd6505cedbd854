"""A search of a collection by several phrasings: which stage each reaches, and that it stays one search."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from stand_in import StandIn
from twinvec import RetrieveRerank
from twinvec.errors import TextError
from twinvec.retrieval.phrasings import led_vector
from twinvec_qdrant import Collection
from words import StateEncoder, WordEncoder

NOTES = [
    ("renew", "tls renewal every spring"),
    ("fox", "the quick brown fox jumps"),
    ("dog", "a lazy dog sleeps on the moon"),
    ("cake", "lemon cake with tea"),
]


class TwoSided(WordEncoder):
    """Encodes documents as they are, and queries after a prompt."""

    def encode_query(self, texts):
        return super().encode_query([f"query {text}" for text in texts])


def same(found, expected):
    """Hits are the same but for rounding, which differs between two runs of one search."""
    assert [hit.id for hit in found] == [hit.id for hit in expected] != []
    for hit, other in zip(found, expected, strict=True):
        assert hit.scores == pytest.approx(other.scores, abs=1e-5)


@pytest.fixture
def notes(place):
    with Collection.open("notes", encoder=TwoSided(), chunking=False, **place) as opened:
        opened.ingest(NOTES)
        yield opened


def test_words_reach_bm25_only(notes):
    plain = notes.search("spring", mode="sparse")
    both = notes.search("spring", mode="sparse", words=["moon", "moon"])
    assert [hit.id for hit in plain] == ["renew"]
    assert [hit.id for hit in both] == ["renew", "dog"]
    (moon,) = notes.search("moon", mode="sparse")
    assert both[0].score == pytest.approx(plain[0].score, abs=1e-6)
    assert both[1].score == pytest.approx(moon.score / 2, abs=1e-6)
    same(notes.search("spring", mode="dense", words="moon"), notes.search("spring", mode="dense"))


def test_hits_of_key_words_alone_have_a_relevance(notes):
    (plain,) = notes.search("moon", mode="sparse")
    (found,) = notes.search("the", mode="sparse", words="moon")
    assert found.id == plain.id == "dog"
    assert found.score == pytest.approx(plain.score / 2, abs=1e-6)
    assert 0 < found.relevance == plain.relevance


def test_answers_reach_the_vectors_only_and_are_encoded_as_documents(notes):
    encoder = notes.encoder
    answers = ["a dog sleeps", "the lazy moon"]
    vector = led_vector(encoder.encode_query(["spring"])[0], encoder.encode_document(answers))
    found = notes.search("spring", mode="dense", answers=answers)
    same(found, notes.search_vector(vector))
    assert found[0].id == "dog"
    same(notes.search("spring", mode="sparse", answers=answers), notes.search("spring", mode="sparse"))


async def test_the_awaitable_twin_finds_the_same(notes):
    options = {"words": "tea", "answers": "a lazy dog on the moon"}
    same(await notes.asearch("spring", **options), notes.search("spring", **options))


async def test_searches_that_share_an_encoder_on_a_server_encode_answers_as_documents():
    with (
        StandIn().running() as server,
        Collection.open("notes", url=server.url, encoder=TwoSided(), chunking=False) as notes,
    ):
        notes.ingest(NOTES)
        options = {"mode": "dense", "answers": "a lazy dog on the moon"}
        expected = notes.search("spring", **options)
        found = await asyncio.gather(*(notes.asearch("spring", **options) for _ in range(3)))
        for each in found:
            same(each, expected)


def test_blank_phrasings_change_nothing_and_a_blank_query_finds_nothing(notes):
    same(notes.search("spring", words=["", " "], answers="\n"), notes.search("spring"))
    assert notes.search(" ", words="moon", answers="moon") == []


def test_a_phrasing_that_is_no_text_is_refused(notes):
    with pytest.raises(TextError, match="words: lone surrogate"):
        notes.search("spring", words="\ud800")
    with pytest.raises(TextError, match="expected a list of strings, got int"):
        notes.search("spring", answers=3)


def test_a_reranker_gets_the_query_and_the_retriever_its_phrasings(tmp_path):
    with Collection.open("notes", tmp_path, encoder=StateEncoder(), chunking=False) as notes:
        notes.ingest(NOTES)
        stages = RetrieveRerank(notes, notes.maxsim(), candidates=2)
        found = stages.search("spring", mode="sparse", words="moon")
        assert {hit.id for hit in found} == {"renew", "dog"}
        assert np.isfinite([hit.scores["maxsim"] for hit in found]).all()
