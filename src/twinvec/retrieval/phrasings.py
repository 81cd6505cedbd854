"""Phrasings: further wordings of one query, each for one stage of the search.

Key words go to BM25. A made-up answer is encoded as a document, because it lies nearer to the true answer than the
question does (HyDE, Gao et al. 2022). In both stages, the query has the weight ``LEAD``, and the mean of its other
phrasings has the weight 1. A query with phrasings is still a single search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.bm25 import SparseVector, weighted_sum
from twinvec.text import check_text, check_texts

LEAD = 2.0
"""Weight of the query, relative to the mean of its other phrasings."""


@dataclass(frozen=True, slots=True)
class Phrasings:
    """Further phrasings of one query.

    Attributes:
        words: Key words, for BM25.
        answers: Made-up answers, for the vectors.
    """

    words: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: str | Sequence[str] = (), answers: str | Sequence[str] = ()) -> Phrasings:
        """Make phrasings from texts, leaving out blank texts; raise TextError if a text is invalid."""
        return cls(_given(words, "words"), _given(answers, "answers"))


def led_vector(query_D: FloatArray, answers_KD: FloatArray) -> FloatArray:
    """Return the weighted mean of the directions of a query and its answers, normalised: shape (D,)."""
    return unit(LEAD * unit(query_D) + unit(answers_KD).mean(axis=0))


def led_terms(query: SparseVector, words: Sequence[SparseVector]) -> SparseVector:
    """Return the sparse vector of a query, plus 1 / ``LEAD`` of the mean sparse vector of its key words.

    BM25 is linear in this vector: the score is the query's score, plus 1 / ``LEAD`` of the key words' mean score.
    """
    return weighted_sum([query, *words], [1.0, *(1 / (LEAD * len(words)) for _ in words)])


def led_weight(query: float, words: Sequence[float]) -> float:
    """Return the weight of the terms of ``led_terms``, given the weights of the query and of its key words."""
    return query + sum(words) / (LEAD * len(words))


def _given(texts: str | Sequence[str], name: str) -> tuple[str, ...]:
    checked = [check_text(texts, name)] if isinstance(texts, str) else check_texts(texts, name=name, argument=name)
    return tuple(text for text in checked if text.strip())
