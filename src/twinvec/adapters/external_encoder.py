"""Encoders that are not ours, as indexes and collections need them: with a name, a size and a space.

Nothing is known of such an encoder but the vectors it gives, so its space is a digest of those of a few probe texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError

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
    """Any functions from texts to vectors.

    Args:
        name: What to call it in messages and in a collection's description.
        embed_queries: Gives one vector for each query.
        embed_documents: Gives one vector for each document.
    """

    def __init__(self, name: str, embed_queries: Embed, embed_documents: Embed) -> None:
        self.name = name
        self._embed_queries = embed_queries
        self._embed_documents = embed_documents

    def __repr__(self) -> str:
        return f"ForeignEncoder({self.name!r})"

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return int(self._probe_vectors.shape[1])

    @cached_property
    def space(self) -> str:
        """Hex digest of where the largest component of each probe's vectors stands.

        Rounded components would not do: a vector that is not the same to the last bit from run to run crosses a
        border of rounding sooner or later. The place of the largest moves only where two are equal.

        Raises:
            BadVectorError: the vectors of the probes are no rectangle of finite numbers.
        """
        both = (self._probe_vectors, self._vectors(self._embed_queries))
        largest = [np.abs(vectors_ND).argmax(axis=1) for vectors_ND in both]
        signs = [np.sign(v[np.arange(len(v)), at]) for v, at in zip(both, largest, strict=True)]
        told = f"{self.dim} {[each.tolist() for each in largest]} {[each.astype(int).tolist() for each in signs]}"
        return hashlib.sha256(told.encode()).hexdigest()

    def encode_query(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of queries: shape (n, dim)."""
        return np.asarray(self._embed_queries(list(texts)), dtype=np.float32)

    def encode_document(self, texts: Sequence[str], **options: Any) -> FloatArray:
        """Vectors of documents: shape (n, dim). There is no progress to show: ``options`` are not looked at."""
        return np.asarray(self._embed_documents(list(texts)), dtype=np.float32)

    @cached_property
    def _probe_vectors(self) -> FloatArray:
        return self._vectors(self._embed_documents)

    def _vectors(self, embed: Embed) -> FloatArray:
        try:
            vectors_ND = np.asarray(embed(list(EXTERNAL_PROBES)), dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise BadVectorError(f"encoder {self.name!r}: its vectors are no rectangle of numbers: {error}") from error
        if vectors_ND.ndim != 2 or len(vectors_ND) != len(EXTERNAL_PROBES) or not np.isfinite(vectors_ND).all():
            raise BadVectorError(
                f"encoder {self.name!r}: expected {len(EXTERNAL_PROBES)} finite vectors of one size for as many"
            )
        return vectors_ND
