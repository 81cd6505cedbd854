"""The content of a memory index: documents, vectors and terms in rows, and what is derived from them.

An addition makes a new corpus, so that a search in another thread sees one state throughout.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from twinvec.arrays import FloatArray, IntArray
from twinvec.retrieval.bm25 import BM25Index
from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters import Filter, matches, parse_filter


@dataclass(frozen=True)
class Corpus:
    """Documents with their vectors, of length 1, and their terms: one row each."""

    documents: list[Document]
    vectors_ND: FloatArray
    terms: list[list[str]]

    @cached_property
    def rows(self) -> dict[str, int]:
        return {document.id: row for row, document in enumerate(self.documents)}

    @cached_property
    def texts(self) -> list[str]:
        return [document.full_text for document in self.documents]

    @cached_property
    def filled(self) -> IntArray:
        """Rows of the documents that are not blank."""
        return np.array([row for row, text in enumerate(self.texts) if text.strip()], dtype=np.int64)

    @cached_property
    def bm25(self) -> BM25Index:
        return BM25Index(self.terms)

    @cached_property
    def id_ranks(self) -> IntArray:
        """Place of each row in the order of ids."""
        ranks = np.empty(len(self.documents), dtype=np.int64)
        ranks[sorted(range(len(self.documents)), key=lambda row: self.documents[row].id)] = np.arange(len(ranks))
        return ranks

    def allowed(self, filter: Filter | None) -> IntArray:
        """Return the rows of the documents that satisfy ``filter`` and are not blank."""
        conditions = parse_filter(filter)
        if not conditions:
            return self.filled
        kept = [row for row in self.filled if matches(conditions, (d := self.documents[row]).id, d.payload)]
        return np.array(kept, dtype=np.int64)

    def replaced(
        self, wanted: list[Document], changed: list[Document], vectors: FloatArray, terms: list[list[str]]
    ) -> Corpus:
        """Return a corpus with the documents ``wanted`` added or replaced.

        ``vectors`` and ``terms`` belong to the documents ``changed``. The other documents keep theirs.
        """
        rows = dict(self.rows)
        for document in wanted:
            rows.setdefault(document.id, len(rows))
        documents = self.documents + [document for document in wanted if document.id not in self.rows]
        all_terms = self.terms + [[]] * (len(rows) - len(self.terms))
        vectors_ND = np.empty((len(rows), vectors.shape[1]), dtype=np.float32)
        vectors_ND[: len(self.documents)] = self.vectors_ND.reshape(-1, vectors.shape[1])
        for document in wanted:
            documents[rows[document.id]] = document
        for document, vector, its_terms in zip(changed, vectors, terms, strict=True):
            vectors_ND[rows[document.id]] = vector
            all_terms[rows[document.id]] = its_terms
        return Corpus(documents, vectors_ND, all_terms)
