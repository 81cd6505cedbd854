"""How certain a figure is: intervals, and paired tests of two systems on the same items, by scipy with a fixed seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError
from twinvec.support.extras import import_extra

RESAMPLES = 1000
Values = npt.NDArray[np.floating[Any]]
"""One number for each item."""

FOLDS = 5
"""Number of folds of a cross-validation."""

SEED = 20190827
"""Seed of everything random in evaluation."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95% interval."""

    low: float
    high: float

    @property
    def bounds(self) -> list[float]:
        """``[low, high]``, as in JSON."""
        return [self.low, self.high]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Whether two systems differ, by a paired test.

    Attributes:
        difference: The second system's figure minus the first's.
        interval: Interval of the difference, by bootstrap over items.
        p_value: Two-sided, by approximate randomisation (Noreen 1989): the share of random item-by-item swaps of the
            two outputs that give a difference this large.
    """

    difference: float
    interval: Interval
    p_value: float


def interval(*samples: Values, statistic: Callable[..., Any] = np.mean, resamples: int = RESAMPLES) -> Interval:
    """Return the percentile bootstrap interval over items (Efron 1979); arrays in ``samples`` are resampled together.

    ``statistic(*samples, axis)`` gives a figure. Raises ConfigurationError if there are fewer than two items.
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
        rng=np.random.default_rng(SEED),
    )
    return Interval(float(drawn.confidence_interval.low), float(drawn.confidence_interval.high))


def share(chosen: npt.NDArray[np.bool_]) -> tuple[float, Interval]:
    """Return a share in percent, and its interval (Wilson 1927), which also holds if all items are chosen, or none."""
    bounds = _scipy_stats().binomtest(int(chosen.sum()), len(chosen)).proportion_ci(method="wilson")
    return 100 * float(chosen.mean()), Interval(100 * float(bounds.low), 100 * float(bounds.high))


def with_interval(figures: Mapping[str, float], bounds: Interval | None) -> dict[str, Any]:
    """Return figures, and the interval of the first one."""
    return {**figures, f"{next(iter(figures))}_interval": bounds.bounds} if bounds else dict(figures)


def as_figures(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in the form of JSON: an interval is ``[low, high]``."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {name: value.bounds if isinstance(value, Interval) else value for name, value in values.items()}


def paired_test(
    first: Values, second: Values, *shared: Values, statistic: Callable[..., Any] = np.mean, resamples: int = RESAMPLES
) -> PairedTest:
    """Compare two systems by their outputs for each of n items; ``statistic(outputs, *shared, axis)`` gives a figure.

    Raises ConfigurationError if the arrays differ in length or hold fewer than two items.
    """
    if any(len(each) != len(first) for each in (second, *shared)):
        raise ConfigurationError(f"the systems were measured on {len(first)} and {len(second)} items")

    def difference(a: Values, b: Values, *rest: Values, axis: int = -1) -> Any:
        rest = tuple(np.broadcast_to(each, a.shape) for each in rest or shared)
        return statistic(b, *rest, axis=axis) - statistic(a, *rest, axis=axis)

    bounds = interval(first, second, *shared, statistic=difference, resamples=resamples)
    test = _scipy_stats().permutation_test(
        (first, second),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=_batch((first, second)),
        rng=np.random.default_rng(SEED),
    )
    return PairedTest(float(difference(first, second)), bounds, float(test.pvalue))


def _batch(samples: tuple[Values, ...]) -> int:
    """Return how many resamples to hold at a time: about 30 MB."""
    return max(1, 4_000_000 // (len(samples[0]) * len(samples)))


def _scipy_stats() -> Any:
    return import_extra("scipy.stats", "eval", "evaluation")
