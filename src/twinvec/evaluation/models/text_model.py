"""The model that evaluation measures: a small protocol that ``Encoder`` and the baselines satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import VectorEncoder
from twinvec.support.checks import check_methods
from twinvec.tokens.pipeline import distinct


class TextModel(VectorEncoder, Protocol):
    """A ``VectorEncoder`` that has a name and also encodes texts that are neither queries nor documents."""

    @property
    def name(self) -> str:
        """Name in reports."""

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Return the vectors of sentences: (n, dim)."""

    def encode_query(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Return the vectors of queries."""

    def encode_document(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Return the vectors of documents."""


def check_text_model(model: object, *methods: str) -> None:
    """Raise ConfigurationError unless a value has these methods of a ``TextModel``."""
    if isinstance(model, str):
        raise ConfigurationError(f"model: expected a model, got its name; write Encoder({model!r})")
    check_methods(model, methods, "model", "a model, such as Encoder(...)")


def encode_distinct(model: TextModel, texts: Sequence[str], *, progress: bool = False) -> FloatArray:
    """Return the vectors of sentences, (n, dim), float32; each distinct text is encoded once.

    Raise ConfigurationError unless ``model`` is a model.
    """
    check_text_model(model, "encode")
    return once_each(partial(model.encode, progress=progress), texts)


def once_each(encode: Callable[[list[str]], Any], texts: Sequence[str]) -> FloatArray:
    """Return the vectors of texts, (n, dim), float32; ``encode`` gets each distinct text once."""
    unique, inverse = distinct(list(texts))
    vectors: FloatArray = np.asarray(encode(unique), dtype=np.float32)
    return vectors[inverse]


def encode_pairs(
    model: TextModel, first: Sequence[str], second: Sequence[str], *, progress: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Return the vectors of both sides of sentence pairs, (n, dim) each; each distinct text is encoded once."""
    vectors = encode_distinct(model, [*first, *second], progress=progress)
    return vectors[: len(first)], vectors[len(first) :]
