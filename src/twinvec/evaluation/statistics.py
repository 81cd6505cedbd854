"""How sure a figure is: bootstrap intervals, and paired tests between two systems on the same items.

Both are scipy's; the seed is fixed, so that the same data gives the same report.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError
from twinvec.support.extras import import_extra

RESAMPLES = 1000
Values = npt.NDArray[np.floating[Any]]
"""One number for each item."""

_SEED = 20190827


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval of 95%."""

    low: float
    high: float

    @property
    def bounds(self) -> list[float]:
        """``[low, high]``, as JSON has it."""
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Whether two systems differ.

    Attributes:
        difference: The second system's figure minus the first's.
        interval: Of the difference, by bootstrap over items.
        p_value: Two-sided, by approximate randomisation (Noreen 1989): how often a difference this large comes about
            when the outputs of the two are swapped at random, item by item.
    """

    difference: float
    interval: Interval
    p_value: float


def mean(values: Values, axis: int = -1) -> Any:
    """The statistic of measures that are averaged over items."""
    return np.mean(values, axis=axis)


def interval(*samples: Values, statistic: Callable[..., Any] = mean, resamples: int = RESAMPLES) -> Interval:
    """Percentile bootstrap over items (Efron 1979).

    Args:
        samples: One or more arrays of n values; several are resampled together.
        statistic: Arrays of n values -> a figure; takes ``axis``, as scipy's functions do.
        resamples: How many samples are drawn.

    Raises:
        ConfigurationError: fewer than two items.
    """
    if len(samples[0]) < 2:
        raise ConfigurationError("an interval needs at least two items")
    drawn = _scipy_stats().bootstrap(
        samples,
        statistic,
        paired=len(samples) > 1,
        vectorized=True,
        n_resamples=resamples,
        batch=_batch(samples),
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return Interval(float(drawn.confidence_interval.low), float(drawn.confidence_interval.high))


def share_interval(chosen: npt.NDArray[np.bool_]) -> Interval:
    """The interval of a share, in percent (Wilson 1927): it holds also where all items, or none, are chosen."""
    bounds = _scipy_stats().binomtest(int(chosen.sum()), len(chosen)).proportion_ci(method="wilson")
    return Interval(100 * float(bounds.low), 100 * float(bounds.high))


def paired_test(
    first: Values,
    second: Values,
    *shared: Values,
    statistic: Callable[..., Any] = mean,
    resamples: int = RESAMPLES,
) -> PairedTest:
    """Compare two systems item by item.

    Args:
        first: The first system's output for each of n items, on the same scale as the second's.
        second: The second system's.
        shared: What the statistic takes besides, such as the gold scores.
        statistic: (outputs, *shared, axis) -> a figure.
        resamples: For the interval and for the test.

    Raises:
        ConfigurationError: the arrays differ in length, or hold fewer than two items.
    """
    if any(len(each) != len(first) for each in (second, *shared)):
        raise ConfigurationError(f"the systems were measured on {len(first)} and {len(second)} items")

    def difference(a: Values, b: Values, *rest: Values, axis: int = -1) -> Any:
        return statistic(b, *rest, axis=axis) - statistic(a, *rest, axis=axis)

    bounds = interval(first, second, *shared, statistic=difference, resamples=resamples)

    def swapped(a: Values, b: Values, axis: int = -1) -> Any:
        return difference(a, b, *(np.broadcast_to(each, a.shape) for each in shared), axis=axis)

    test = _scipy_stats().permutation_test(
        (first, second),
        swapped,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=_batch((first, second)),
        rng=np.random.default_rng(_SEED),
    )
    return PairedTest(float(difference(first, second, *shared)), bounds, float(test.pvalue))


def _batch(samples: tuple[Values, ...]) -> int:
    """How many resamples are held at a time: some 30 MB."""
    return max(1, 4_000_000 // (len(samples[0]) * len(samples)))


def _scipy_stats() -> Any:
    return import_extra("scipy.stats", "eval", "evaluation")
