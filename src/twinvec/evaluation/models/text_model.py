"""What evaluation asks of a model: a small protocol that ``Encoder`` and the baselines satisfy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.retrieval.base import VectorEncoder


class TextModel(VectorEncoder, Protocol):
    """A ``VectorEncoder`` that has a name and also encodes sentences of neither side."""

    @property
    def name(self) -> str:
        """How reports call it."""
        ...

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Vectors of sentences: shape (n, dim)."""
        ...

    def encode_query(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Vectors of queries."""
        ...

    def encode_document(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Vectors of documents."""
        ...


def encode_distinct(model: TextModel, texts: Sequence[str], *, progress: bool = False) -> FloatArray:
    """Vectors of sentences, shape (n, dim), float32; a text that comes several times is encoded once.

    Sets of pairs use the same sentence again and again: SICK has 6,077 of them in 19,854 places.
    """
    rows: dict[str, int] = {}
    where = [rows.setdefault(text, len(rows)) for text in texts]
    vectors: FloatArray = np.asarray(model.encode(list(rows), progress=progress), dtype=np.float32)
    return vectors[where]
