"""Similarities of text pairs by their vectors, and their correlation with scores that people gave."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.floating[Any]]
"""One number for each item."""


def pair_similarities(first_ND: Values, second_ND: Values) -> dict[str, Values]:
    """Return cosine, dot product, negated Euclidean and negated Manhattan distance of each row, each of shape (n,).

    The cosine with a zero vector is 0. Values are rounded to 6 decimals. If all vectors are shorter than 1, the
    rounding is relative to the longest vector.
    """
    a, b = first_ND.astype(np.float64), second_ND.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    dot, norms = np.einsum("nd,nd->n", a, b), lengths[0] * lengths[1]
    cosine = np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)
    size = min(np.max(lengths, initial=0), 1) or 1
    # rounded, so that the order of summation does not decide between equal pairs
    return {
        "cosine": np.round(cosine, 6),
        "dot": np.round(dot / size**2, 6) * size**2,
        "euclidean": -np.round(np.linalg.norm(a - b, axis=1) / size, 6) * size,
        "manhattan": -np.round(np.abs(a - b).sum(axis=1) / size, 6) * size,
    }


def spearman(values: Values, gold: Values, axis: int = -1) -> Any:
    """Spearman's rank correlation x 100, with ties at their mean rank; 0 if one side is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(values, axis=axis), rankdata(gold, axis=axis), axis=axis)


def pearson(values: Values, gold: Values, axis: int = -1) -> Any:
    """Pearson's correlation x 100; 0 if one side is constant."""
    from scipy.stats import ConstantInputWarning, pearsonr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return 100 * np.nan_to_num(pearsonr(values, gold, axis=axis).statistic)
