"""BM25 over the terms of texts (``retrieval.analysis``): an index in memory, and sparse vectors for a store.

``BM25Index`` computes BM25 as Lucene does (Robertson and Zaragoza 2009; Kamphuis et al. 2020, table 1, "Lucene
(accurate)", without the constant factor k1 + 1, as in Lucene since version 8). In a store that multiplies by inverse
document frequency (Qdrant's ``Modifier.IDF``), the dot product of ``query_vector`` and ``document_vector`` is the same
score. Only ``BM25Index`` imports bm25s, when it is built, because this import loads scipy and is slower than a search.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import bm25s

K1 = 1.5
B = 0.75


class BM25Index:
    """An index that computes BM25 scores; ``terms`` has each document's terms, made by one ``Analyzer``."""

    def __init__(self, terms: Sequence[list[str]]) -> None:
        self._size = len(terms)
        self._index: bm25s.BM25 | None = None
        if any(terms):  # bm25s cannot index a corpus without a single term
            import bm25s

            self._index = bm25s.BM25(k1=K1, b=B, method="lucene")
            self._index.index(list(terms), show_progress=False)

    def scores(self, terms: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return every document's score for a query's terms: shape (n,), 0 for documents that share no term."""
        if self._index is None or not terms:
            return np.zeros(self._size, dtype=np.float32)
        scores: npt.NDArray[np.float32] = self._index.get_scores(list(terms))
        return scores


_LEAST_WEIGHT = 2.0
_UNCOUNTED_WEIGHT = 4.5


@dataclass(frozen=True, slots=True)
class TermCounts:
    """The number of texts that contain each term, and the number of all texts.

    Attributes:
        texts: Number of all texts.
        counts: Term -> number of texts that contain it.
        is_counted: Function that tells whether ``counts`` would have a term if a text contained it. Default: always.
    """

    texts: int
    counts: Mapping[str, int]
    is_counted: Callable[[str], bool] | None = None

    def weight(self, terms: Iterable[str]) -> float:
        """Return the sum of the inverse document frequencies of a query's terms, including terms that no text has.

        A term that most texts contain has at least the weight 2, or half of the largest weight in a small collection.
        Without this minimum, any text would seem to answer a query of common terms alone. A term whose number of texts
        is unknown has a medium weight.
        """
        most = self._inverse_frequency(0)
        least = min(_LEAST_WEIGHT, most / 2)
        return sum(max(self._weight(term, most), least) for term in terms)

    def _weight(self, term: str, most: float) -> float:
        if (count := self.counts.get(term)) is not None:
            return self._inverse_frequency(min(count, self.texts))
        is_absent = self.is_counted is None or self.is_counted(term)
        return most if is_absent else min(_UNCOUNTED_WEIGHT, most)

    def _inverse_frequency(self, count: int) -> float:
        return math.log1p((self.texts - count + 0.5) / (count + 0.5))


SparseVector = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
"""Term ids, ascending, and their values."""


def document_vector(terms: Sequence[str], average_length: float) -> SparseVector:
    """Return a document's saturated term frequencies: tf / (tf + k1 (1 - b + b length / average)).

    ``average_length`` is in terms. If it is 0 (unknown), the document counts as one of average length.
    """
    ids, counts = _counted(terms)
    norm = K1 * (1 - B + B * len(terms) / (average_length or len(terms) or 1))
    return _merged(ids, counts / (counts + norm))


def document_vectors(terms: Sequence[Sequence[str]], average_length: float) -> list[SparseVector]:
    """Return the ``document_vector`` of each document, computed for all documents at once."""
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    rows = np.repeat(np.arange(len(terms)), lengths)
    ids = np.fromiter(map(term_id, chain.from_iterable(terms)), np.int64, len(rows))
    places, counts = np.unique(rows << 32 | ids, return_counts=True)  # sorted by document, then by dimension
    # there are fewer places than terms if two terms of a document share a dimension
    if len(places) != sum([len(set(each)) for each in terms]):
        return [document_vector(each, average_length) for each in terms]
    rows, ids = places >> 32, places & 0xFFFFFFFF
    norms = K1 * (1 - B + B * lengths / (average_length or np.maximum(lengths, 1)))
    weights = (counts / (counts + norms[rows])).astype(np.float32)
    ends = np.cumsum(np.bincount(rows, minlength=len(terms))).tolist()
    return [(ids[start:end], weights[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def query_vector(terms: Sequence[str]) -> SparseVector:
    """Return the counts of a query's terms."""
    return _merged(*_counted(terms))


def weighted_sum(vectors: Sequence[SparseVector], weights: Sequence[float]) -> SparseVector:
    """Return the weighted sum of sparse vectors."""
    ids = np.concatenate([ids for ids, _ in vectors])
    values = np.concatenate([values * weight for (_, values), weight in zip(vectors, weights, strict=True)])
    return _merged(ids, values.astype(np.float64))


def _counted(terms: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the dimension of each distinct term, and how often it occurs."""
    counts = Counter(terms)
    ids = np.fromiter(map(term_id, counts), np.int64, len(counts))
    return ids, np.fromiter(counts.values(), np.float64, len(counts))


def _merged(ids: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> SparseVector:
    """Sort by dimension; add the weights of terms with the same dimension, because stores refuse a repeated id."""
    order = np.argsort(ids, kind="stable")
    ids, weights = ids[order], weights[order]
    if (same := ids[1:] == ids[:-1]).any():
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        ids, weights = ids[first], np.add.reduceat(weights, first)
    return ids, weights.astype(np.float32)


@lru_cache(maxsize=65536)
def term_id(term: str) -> int:
    """Return a term's dimension: 32 bits of its hash, the same in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=4).digest(), "big")
