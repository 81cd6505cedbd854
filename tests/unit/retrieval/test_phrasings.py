"""Phrasings: how a query leads its key words and made-up answers."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import TextError
from twinvec.retrieval.bm25 import document_vector, query_vector
from twinvec.retrieval.phrasings import Phrasings, led_terms, led_vector


def test_the_query_weighs_twice_what_the_mean_of_its_answers_weighs():
    query, answers = np.array([3.0, 0.0]), np.array([[0.0, 5.0], [0.0, 0.1]])  # lengths do not count
    assert led_vector(query, answers) == pytest.approx(np.array([2.0, 1.0]) / np.sqrt(5))
    assert led_vector(query, np.array([[7.0, 0.0]])) == pytest.approx([1.0, 0.0])
    assert led_vector(query, np.array([[-7.0, 0.0]])) == pytest.approx([1.0, 0.0])  # opposite, and never to zero


def test_bm25_is_that_of_the_query_and_half_the_mean_of_the_words():
    terms = ["certificate", "renewal", "tls"]
    ids, weights = document_vector(terms, 3.0)
    document = dict(zip(ids.tolist(), weights.tolist(), strict=True))

    def score(vector):
        return sum(float(count) * document.get(int(each), 0.0) for each, count in zip(*vector, strict=True))

    query, words = query_vector(["renewal", "late"]), [query_vector(["tls", "renewal"]), query_vector(["tls"])]
    led = led_terms(query, words)
    assert score(led) == pytest.approx(score(query) + sum(map(score, words)) / 4)
    assert score(led) > score(query)
    assert np.all(np.diff(led[0]) > 0)  # stores refuse a repeated id
    assert led[1].dtype == np.float32


def test_one_text_is_one_phrasing_and_blank_ones_are_ignored():
    assert Phrasings.of("tls", ["an answer", " \n"]) == Phrasings(("tls",), ("an answer",))
    assert Phrasings.of("", ()) == Phrasings()


@pytest.mark.parametrize(
    ("words", "answers", "said"),
    [
        (5, (), "expected a list of strings, got int"),
        (["a", None], (), "words 1: expected a string, got NoneType"),
        ((), b"x", "expected a list of strings, got bytes"),
        ((), ["\ud800"], "answers 0: lone surrogate"),
        ("\ud800", (), "words: lone surrogate"),
    ],
)
def test_what_is_no_text_is_refused(words, answers, said):
    with pytest.raises(TextError, match=said):
        Phrasings.of(words, answers)
