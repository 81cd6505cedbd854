"""What evaluation asks of a model: a small protocol that ``Encoder`` and the baselines satisfy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class TextModel(Protocol):
    """Texts -> vectors, one row a text."""

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
