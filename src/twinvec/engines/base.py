"""The border to the engines: token ids and masks in, pooled vectors out.

An engine is given batches that are already tokenised, sorted and cut; it knows no texts and no order. Token
states cross the border only through ``states``, which late interaction asks for.

Legend: B texts, T tokens (padded), D dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from twinvec.arrays import FloatArray, IntArray

GPU_STREAMS = 2
"""Batches that are on their way to, on, or on their way from one GPU."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Token ids of B texts, padded on the right to T.

    Attributes:
        ids_BT: Token ids.
        mask_BT: 1 for a token, 0 for padding.
        types_BT: Segment of each token (pairs of a cross-encoder), or None for all zero.
        prompt_tokens: How many leading tokens pooling leaves out (models with ``include_prompt: false``).
        alone: Whether no other batch of the same call is computed beside it, so that all cores may work on it.
    """

    ids_BT: IntArray
    mask_BT: IntArray
    types_BT: IntArray | None = None
    prompt_tokens: int = 0
    alone: bool = False

    @property
    def inputs(self) -> dict[str, IntArray]:
        """All that a graph may ask for, by the names of its inputs."""
        return {
            "input_ids": self.ids_BT,
            "attention_mask": self.mask_BT,
            "token_type_ids": np.zeros_like(self.ids_BT) if self.types_BT is None else self.types_BT,
            "prompt_tokens": np.array(self.prompt_tokens, dtype=np.int64),
        }

    def rows(self, start: int, stop: int) -> Batch:
        """The texts from ``start`` to ``stop``, padded as they are."""
        types_BT = None if self.types_BT is None else self.types_BT[start:stop]
        return Batch(self.ids_BT[start:stop], self.mask_BT[start:stop], types_BT, self.prompt_tokens)


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
