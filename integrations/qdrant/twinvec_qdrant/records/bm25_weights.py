"""BM25 weights in a store: the average length that they depend on, and when they are computed again.

The store keeps saturated term frequencies (``twinvec.retrieval.bm25``), which depend on the average length of all
chunks. The collection therefore records the average that its weights assume. When the true average has moved too far
from it, all weights are computed again from the stored texts.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinvec.retrieval.bm25 import Analyzer, SparseVector, document_vectors, query_vector
from twinvec_qdrant.records.description import Description, stored_description
from twinvec_qdrant.records.schema import CHUNKS, RECORDS, Record
from twinvec_qdrant.stores.base import Backend, update_existing
from twinvec_qdrant.stores.points import Point, pages

DRIFT = 0.05
"""Relative change of the average at which all weights are computed again."""

_PAGE = 1000


class BM25Weights:
    """The sparse vectors of a collection; the weights assume chunks of ``average_length`` terms (0: not known yet)."""

    def __init__(self, backend: Backend, description: Description) -> None:
        self._backend = backend
        self._analyzer = Analyzer(description.language)
        self.average_length = description.average_length
        self._totals: tuple[int, int] | None = None  # chunks and terms; None until they are counted

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text."""
        return self._analyzer.terms(texts)

    def documents(self, terms: Sequence[list[str]]) -> list[SparseVector]:
        """Return the vectors of chunks, from their terms; the first chunks of a collection set the average."""
        self._assume(terms)
        return document_vectors(terms, self.average_length)

    def begin(self, texts: Sequence[str]) -> None:
        """Let these chunks, the first of a collection, set its average; do nothing if it has one."""
        if not self.average_length:
            self._assume(self.terms(texts))

    def queries(self, texts: Sequence[str]) -> list[SparseVector]:
        """Return the vectors of queries."""
        return [query_vector(each) for each in self.terms(texts)]

    def changed(self, old: Record | None, new: Record | None) -> None:
        """Add a commit to the totals, which are counted in the store only once."""
        if self._totals is not None:
            chunks, terms = self._totals
            for record, sign in ((old, -1), (new, 1)):
                if record is not None:
                    chunks += sign * len(record.chunks)
                    terms += sign * record.terms
            self._totals = chunks, terms

    def count_from_nothing(self) -> None:
        """Count only the commits from now on, in an empty collection without another writer."""
        self._totals = (0, 0)

    def refresh(self) -> None:
        """Read the average again; other writers may have changed it."""
        average = stored_description(self._backend).average_length
        if average != self.average_length:
            self.average_length, self._totals = average, None

    def rebalance(self) -> None:
        """Compute all weights again if the average has drifted. After a kill, the next call starts over."""
        if self._totals is not None and not self._drifted(*self._totals):
            return
        chunks, terms = self._totals = self._counted()  # also counts the commits of other writers
        if not self._drifted(chunks, terms):
            return
        average = terms / chunks
        for page in pages(self._backend.scroll([CHUNKS], ["text"]), _PAGE):
            self._weigh(page, average)
        self._backend.flush()
        self._record(average)

    def _assume(self, terms: Sequence[Sequence[str]]) -> None:
        if not self.average_length and any(terms):
            self._record(sum(map(len, terms)) / len(terms))

    def _drifted(self, chunks: int, terms: int) -> bool:
        return terms > 0 and abs(terms / chunks - self.average_length) > DRIFT * self.average_length

    def _counted(self) -> tuple[int, int]:
        records = list(self._backend.scroll([RECORDS], ["terms", "size"]))
        return sum(each.payload["size"] for each in records), sum(each.payload["terms"] for each in records)

    def _weigh(self, page: Sequence[Point], average: float) -> None:
        terms = self.terms([point.payload["text"] for point in page])
        vectors = document_vectors(terms, average)
        weights = {point.id: vector for point, vector in zip(page, vectors, strict=True)}
        update_existing(
            self._backend, weights, lambda ids: self._backend.update_sparse({key: weights[key] for key in ids})
        )

    def _record(self, average: float) -> None:
        self._backend.write_metadata({"average_length": average})
        self.average_length = average
