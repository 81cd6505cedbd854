"""The protocols of engines: token ids and masks in, pooled vectors or logits out.

An engine gets batches that are tokenised, sorted and padded; it knows neither the texts nor their order. Token states
leave it only through ``states``, for late interaction. Legend: B texts, T tokens (padded), D dimension.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError
from twinvec.tokens.batching import Batch


class AnyEngine(Protocol):
    """Common part of the engines of encoders and cross-encoders; several threads may call their methods at once.

    ``name`` has engine, device and precision, for messages: "torch, cpu, float32". ``workers`` is the number of batches
    computed at once. ``token_budget`` is the padded size of a batch, in tokens, at which the engine is fastest.
    """

    name: str
    workers: int
    token_budget: int


class Engine(AnyEngine, Protocol):
    """An encoder's engine."""

    def vectors(self, batch: Batch) -> FloatArray:
        """Return pooled vectors of shape (B, D), normalised if the model normalises."""

    def states(self, batch: Batch) -> FloatArray:
        """Return last-layer token states of shape (B, T, D); rows of padding are meaningless."""


class ScoringEngine(AnyEngine, Protocol):
    """A cross-encoder's engine."""

    def logits(self, batch: Batch) -> FloatArray:
        """Return classification logits of shape (B, labels) for pairs."""


def check_finite(values: FloatArray, engine: str, what: str = "vector") -> FloatArray:
    """Return values that an engine computed; raise BadVectorError if one is not finite."""
    if not np.isfinite(values).all():
        raise BadVectorError(f"engine {engine}: a {what} is not finite")
    return values
