"""Fusion: the scores of two stages -> one.

All methods take the scores of both stages for the same candidates and give one score for each; larger is better.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from twinvec.engines.base import FloatArray

Method = Literal["adaptive", "rrf", "distribution"]

CANDIDATES = 100
"""How many results of each stage to fuse, unless more are asked for."""


def fuse(
    dense: FloatArray,
    sparse: FloatArray,
    *,
    query: str = "",
    method: Method = "adaptive",
    weights: tuple[float, float] | None = None,
) -> FloatArray:
    """Fuse dense and sparse scores of n candidates, both complete (0 sparse where no term matches): shape (n,)."""
    w = weights or (1.0, 1.0)
    return (w[0] * _standardized(dense) + w[1] * _standardized(sparse)).astype(np.float32)


def _standardized(scores: FloatArray) -> FloatArray:
    spread = scores.std()
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros_like(scores)
