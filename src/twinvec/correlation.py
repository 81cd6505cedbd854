"""Similarities of text pairs by their vectors, and their correlation with scores that people gave."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError, InputError
from twinvec.support.checks import integer, shown
from twinvec.support.extras import import_extra

Values = npt.NDArray[np.floating[Any]]
"""One number for each item."""


def pair_similarities(first_ND: Values, second_ND: Values) -> dict[str, Values]:
    """Return cosine, dot product, negated Euclidean and negated Manhattan distance of each row, each of shape (n,).

    The cosine with a zero vector is 0. Values are rounded to 6 decimals. If all vectors are shorter than 1, the
    rounding is relative to the longest vector.
    """
    a, b = _numbers(first_ND, "first_ND"), _numbers(second_ND, "second_ND")
    if a.ndim != 2 or a.shape != b.shape:
        raise InputError(
            f"first_ND and second_ND: expected two arrays of one shape (n, d), got {a.shape} and {b.shape}"
        )
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
    values, gold = _items(values, gold, axis)
    rankdata = import_scipy_stats().rankdata
    return pearson(rankdata(values, axis=axis), rankdata(gold, axis=axis), axis=axis)


def pearson(values: Values, gold: Values, axis: int = -1) -> Any:
    """Pearson's correlation x 100; 0 if one side is constant."""
    values, gold = _items(values, gold, axis)
    stats = import_scipy_stats()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return 100 * np.nan_to_num(stats.pearsonr(values, gold, axis=axis).statistic)


def import_scipy_stats() -> Any:
    """Import scipy.stats; errors are those of ``import_extra``.

    Long work that ends with a correlation or an interval calls this function first, so that a missing scipy is reported
    before the work.
    """
    return import_extra("scipy.stats", "eval", "evaluation")


def _items(values: Any, gold: Any, axis: int) -> tuple[Values, Values]:
    """Return two arrays of numbers.

    Raise InputError unless they have equally many items along the axis, at least 2, and ConfigurationError if one of
    them has no such axis.
    """
    arrays = _numbers(values, "values"), _numbers(gold, "gold")
    integer(axis, "axis")
    if any(each.ndim and not -each.ndim <= axis < each.ndim for each in arrays):
        raise ConfigurationError(f"axis {axis}: values and gold have {arrays[0].ndim} and {arrays[1].ndim} dimensions")
    sizes = [each.shape[axis] if each.ndim else 1 for each in arrays]
    if sizes[0] != sizes[1] or sizes[0] < 2:
        raise InputError(f"values and gold: expected equally many, at least two, got {sizes[0]} and {sizes[1]}")
    return arrays


def _numbers(given: Any, name: str) -> Values:
    """Return numbers as an array of float64; raise InputError for other values, NaN and infinity."""
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}: expected an array of numbers, got {shown(given)}")
    if not np.isfinite(array).all():
        raise InputError(f"{name}: expected finite numbers, got {array[~np.isfinite(array)].flat[0]}")
    return array.astype(np.float64)
