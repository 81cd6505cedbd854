"""What is asked of vectors everywhere: rows of length 1, and whether a row has a direction at all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SMALLEST = 1e-12  # as torch.nn.functional.normalize


def unit(vectors: FloatArray) -> FloatArray:
    """Vectors along the last axis, (..., D), divided by their L2 norm; zeros stay zeros."""
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalised: FloatArray = np.divide(vectors, np.maximum(norms, _SMALLEST), dtype=np.float32)
    return normalised


def without_direction(vectors_ND: FloatArray) -> npt.NDArray[np.intp]:
    """The rows that are zero or not finite: no cosine compares them with anything."""
    norms_N = np.linalg.norm(vectors_ND, axis=-1)
    return np.flatnonzero(~np.isfinite(norms_N) | (norms_N == 0))


FloatArray = npt.NDArray[np.float32]


IntArray = npt.NDArray[np.int64]
