"""Types of arrays, and a few operations on vectors and scores that several parts share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
ScoreArray = npt.NDArray[np.floating]
FloatsOfAnySize = npt.NDArray[np.floating[Any]]
"""Vectors that a caller passes: float16, float32 or float64. Functions that return vectors return ``FloatArray``."""
IntsOfAnySize = npt.NDArray[np.integer[Any]]

_SMALLEST = 1e-12  # the eps of torch.nn.functional.normalize


def unit(vectors: FloatArray) -> FloatArray:
    """Divide vectors along the last axis, (..., D), by their L2 norm. A zero vector stays zero."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalised: FloatArray = np.divide(vectors, np.maximum(norms, _SMALLEST), dtype=np.float32)
    return normalised


def row_cosines(first_ND: FloatArray, second_ND: FloatArray) -> FloatArray:
    """Return the cosine of each vector with the vector in the same row, (N,); 0 for a zero vector."""
    cosines_N: FloatArray = np.sum(unit(first_ND) * unit(second_ND), axis=1)
    return cosines_N


def without_direction(vectors_ND: FloatArray) -> npt.NDArray[np.intp]:
    """Return the rows that are zero or not finite, which have no cosine with any vector."""
    norms_N = np.linalg.norm(vectors_ND, axis=-1)
    return np.flatnonzero(~np.isfinite(norms_N) | (norms_N == 0))


def largest(scores: FloatArray, limit: int, ties: IntArray | None = None) -> IntArray:
    """Return the indices of the ``limit`` largest scores, best first; equal scores by ``ties`` (default: by index)."""
    indices = np.arange(len(scores))
    if limit < len(scores):
        indices = np.flatnonzero(scores >= np.partition(scores, -limit)[-limit])
    order = indices if ties is None else ties[indices]
    return indices[np.lexsort((order, -scores[indices]))][:limit]


def deviation(scores: ScoreArray) -> np.floating:
    """Return the standard deviation, exactly 0 for equal scores despite rounding."""
    return scores.std() if scores.size and np.ptp(scores) > 0 else np.float64(0)


def standardized(scores: ScoreArray, among: ScoreArray) -> ScoreArray:
    """Standardise scores by the mean and the deviation of ``among``; zeros if this deviation is 0."""
    spread = deviation(among)
    return (scores - among.mean()) / spread if spread > 0 else np.zeros_like(scores)
