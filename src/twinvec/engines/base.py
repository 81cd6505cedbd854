"""The border to the engines: token ids and masks in, pooled vectors out.

An engine is given batches that are already tokenised, sorted and cut; it knows no texts and no order. Token
states cross the border only through ``states``, which late interaction asks for.

Legend: B texts, T tokens (padded), D dimension.
"""

from __future__ import annotations

from typing import Protocol

from twinvec.arrays import FloatArray
from twinvec.tokens.batching import Batch

GPU_STREAMS = 2
"""Batches that are on their way to, on, or on their way from one GPU."""


class Engine(Protocol):
    """What every engine does; its methods may be called from several threads at once."""

    @property
    def name(self) -> str:
        """What computes, with device and precision, for messages: "torch, cpu, float32"."""
        ...

    @property
    def workers(self) -> int:
        """How many batches it computes at once."""
        ...

    @property
    def token_budget(self) -> int:
        """The padded size of a batch, in tokens, at which it is fastest."""
        ...

    def vectors(self, batch: Batch) -> FloatArray:
        """Pooled vectors of shape (B, D), normalised where the model normalises."""
        ...

    def states(self, batch: Batch) -> FloatArray:
        """Last-layer token states of shape (B, T, D); rows of padding are meaningless."""
        ...


class ScoringEngine(Protocol):
    """A cross-encoder's engine."""

    @property
    def name(self) -> str: ...

    @property
    def workers(self) -> int: ...

    @property
    def token_budget(self) -> int: ...

    def logits(self, batch: Batch) -> FloatArray:
        """Classification logits of shape (B, labels) for pairs."""
        ...
