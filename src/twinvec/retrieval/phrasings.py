"""Phrasings: one query in several forms, each for the stage of a search that it suits.

Key words go to BM25. A made-up answer is encoded as a document, because it lies nearer to the true answer than the
question does (HyDE, Gao et al. 2022). The query leads: in both stages it weighs ``LEAD``, and the mean of its other
phrasings 1. A search with phrasings remains one search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.bm25 import SparseVector, weighted_sum
from twinvec.text import check_text, check_texts

LEAD = 2.0
"""Weight of the query where the mean of its other phrasings has 1."""


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
        """Return the phrasings of a caller, without the blank ones; raise TextError if the input gate refuses one."""
        return cls(_given(words, "words"), _given(answers, "answers"))


def led_vector(query_D: FloatArray, answers_KD: FloatArray) -> FloatArray:
    """Return the vector of a query with answers, of length 1: shape (D,). Vectors count by their direction only."""
    return unit(LEAD * unit(query_D) + unit(answers_KD).mean(axis=0))


def led_terms(query: SparseVector, words: Sequence[SparseVector]) -> SparseVector:
    """Return a query's terms with those of key words: the query's own count fully, others 1 / ``LEAD`` of their mean.

    BM25 is linear in them: the score is that of the query, plus 1 / ``LEAD`` of the mean score of the key words.
    """
    return weighted_sum([query, *words], [1.0, *(1 / (LEAD * len(words)) for _ in words)])


def _given(texts: str | Sequence[str], name: str) -> tuple[str, ...]:
    checked = [check_text(texts, name)] if isinstance(texts, str) else check_texts(texts, name=name)
    return tuple(text for text in checked if text.strip())
