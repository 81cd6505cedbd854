"""Encoders of other libraries, with the name, size and space that indexes and collections need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError
from twinvec.retrieval.base import as_vectors

EXTERNAL_PROBES = (
    "What is the capital of France?",
    "The invoice was paid on 3 March 2021, two weeks late.",
    "def add(a, b): return a + b",
    "Photosynthesis turns light, water and carbon dioxide into sugar and oxygen.",
    "Der Zug nach München fährt um 7:45 Uhr ab.",
    "She whispered that the old lighthouse had never been empty.",
    "error: connection refused (111)",
    "人工知能は言語を理解できるか。",
)

Embed = Callable[[list[str]], Sequence[Sequence[float]]]


class ExternalEncoder:
    """An encoder made of two functions from texts to vectors; ``name`` is its name in messages and descriptions."""

    def __init__(self, name: str, embed_queries: Embed, embed_documents: Embed) -> None:
        self.name = name
        self._embed_queries = embed_queries
        self._embed_documents = embed_documents

    def __repr__(self) -> str:
        return f"ExternalEncoder({self.name!r})"

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return int(self._probe_vectors.shape[1])

    @cached_property
    def space(self) -> str:
        """Hex digest of the position and the sign of the largest component in each probe text's vectors.

        The vectors of some encoders differ in their last bits from run to run. A rounded component could then change.
        The position of the largest component changes only if two components are equally large.
        """
        both = (self._probe_vectors, self._vectors(self._embed_queries))
        largest = [np.abs(vectors_ND).argmax(axis=1) for vectors_ND in both]
        signs = [np.sign(v[np.arange(len(v)), at]) for v, at in zip(both, largest, strict=True)]
        told = f"{self.dim} {[each.tolist() for each in largest]} {[each.astype(int).tolist() for each in signs]}"
        return hashlib.sha256(told.encode()).hexdigest()

    def encode_query(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of queries: shape (n, dim); raises BadVectorError if they are not numbers of one size."""
        return as_vectors(self._embed_queries(list(texts)), f"encoder {self.name!r}")

    def encode_document(self, texts: Sequence[str], **options: Any) -> FloatArray:
        """Vectors of documents: shape (n, dim). ``options``, such as ``progress``, are ignored.

        Errors are those of ``encode_query``.
        """
        return as_vectors(self._embed_documents(list(texts)), f"encoder {self.name!r}")

    @cached_property
    def _probe_vectors(self) -> FloatArray:
        return self._vectors(self._embed_documents)

    def _vectors(self, embed: Embed) -> FloatArray:
        vectors_ND = as_vectors(embed(list(EXTERNAL_PROBES)), f"encoder {self.name!r}")
        if vectors_ND.ndim != 2 or len(vectors_ND) != len(EXTERNAL_PROBES) or not np.isfinite(vectors_ND).all():
            raise BadVectorError(
                f"encoder {self.name!r}: expected {len(EXTERNAL_PROBES)} finite vectors of one size, one for each text"
            )
        return vectors_ND
