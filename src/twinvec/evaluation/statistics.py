"""How certain a figure is: intervals, and paired tests of two systems on the same items.

scipy computes them, with a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.correlation import Values as Values
from twinvec.correlation import import_scipy_stats
from twinvec.errors import ConfigurationError
from twinvec.support.checks import integer, shown
from twinvec.text import is_list

RESAMPLES = 1000
"""Default number of resamples for an interval or a test."""

FOLDS = 5
"""Number of folds of a cross-validation."""

SEED = 20190827
"""Seed of everything random in evaluation."""

ERROR = 0.02
"""The error rate of ``assured_gains`` for n items is ``ERROR`` * sqrt(n), at most ``MOST_ERROR``.

The error rate is the share of samples in which chance alone makes some setting seem better. A wrong choice costs about
a standard error, which shrinks with sqrt(n). If the rate grows with sqrt(n), the expected cost stays the same: below a
tenth of a point with cross-validation (``benchmarks/TUNING.md``).
"""

MOST_ERROR = 0.2
"""Largest error rate of ``assured_gains``; a hundred items reach it."""

_SAMPLES = 999
_NUMBERS_AT_ONCE = 1 << 21  # numbers in memory at a time: 16 MB
_LEAST_VARIANCE = 1e-9  # as a share of the mean square; it prevents a division by 0 if all queries gain the same


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

    ``statistic(*samples, axis)`` computes the figure. Raises ConfigurationError if there are fewer than two items, or
    if the samples differ in length.
    """
    samples, resamples = _numbers(samples, ["samples"] * len(samples)), check_resamples(resamples)
    sizes = [len(each) for each in samples]
    if len(set(sizes)) != 1 or sizes[0] < 2:
        raise ConfigurationError(
            f"an interval needs samples of equal length with at least two items, got lengths {sizes}"
        )
    drawn = import_scipy_stats().bootstrap(
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
    """Return the share of chosen items in percent, and its interval (Wilson 1927), which is valid also at 0 and 100."""
    bounds = import_scipy_stats().binomtest(int(chosen.sum()), len(chosen)).proportion_ci(method="wilson")
    return 100 * float(chosen.mean()), Interval(100 * float(bounds.low), 100 * float(bounds.high))


def with_interval(figures: Mapping[str, float], bounds: Interval | None) -> dict[str, Any]:
    """Return figures with the interval of the first figure."""
    return {**figures, f"{next(iter(figures))}_interval": bounds.bounds} if bounds else dict(figures)


def as_figures(result: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in the form of JSON: an interval is ``[low, high]``."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return {name: value.bounds if isinstance(value, Interval) else value for name, value in values.items()}


def paired_test(
    first: Values, second: Values, *shared: Values, statistic: Callable[..., Any] = np.mean, resamples: int = RESAMPLES
) -> PairedTest:
    """Compare two systems by their outputs for n items; ``statistic(outputs, *shared, axis)`` computes the figure.

    Raises ConfigurationError if the arrays differ in length or hold fewer than two items.
    """
    first, second, *others = _numbers((first, second, *shared), ["first", "second", *(["shared"] * len(shared))])
    shared, resamples = tuple(others), check_resamples(resamples)
    if any(len(each) != len(first) for each in (second, *shared)):
        raise ConfigurationError(f"a paired test needs the same items, got {len(first)} and {len(second)} items")

    def difference(a: Values, b: Values, *rest: Values, axis: int = -1) -> Any:
        rest = tuple(np.broadcast_to(each, a.shape) for each in rest or shared)
        return statistic(b, *rest, axis=axis) - statistic(a, *rest, axis=axis)

    bounds = interval(first, second, *shared, statistic=difference, resamples=resamples)
    test = import_scipy_stats().permutation_test(
        (first, second),
        difference,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=_batch((first, second)),
        rng=np.random.default_rng(SEED),
    )
    return PairedTest(float(difference(first, second)), bounds, float(test.pvalue))


def assured_gains(gains_SN: Values) -> Values:
    """Return the mean gain of each of S settings minus the part that chance explains; -inf for a clear loser.

    ``gains_SN`` has the gain of each setting for each of N items. The best mean of many settings is mostly luck. The
    means are therefore corrected for the number of settings, as in the test for superior predictive ability (Hansen
    2005, after White 2000, "A reality check for data snooping"). The test compares t: the mean gain of a setting,
    divided by its standard error. If no setting gained, the gains of an item would be equally likely with the opposite
    sign. Random signs, the same for all settings, therefore show how large the greatest t becomes by chance (Westfall
    and Young 1993, Romano and Wolf 2005). Common signs keep the correlation of the settings, so similar settings cost
    little. Clear losers are left out, as Hansen advises: a clear loser cannot be the best setting, and would hide it.

    Each true mean is at least the returned mean, except in a small share of all samples (``ERROR``).
    """
    count = gains_SN.shape[1]
    squares_S = np.mean(gains_SN**2, axis=1)
    means_S = gains_SN.mean(axis=1)
    errors_S = _standard_errors(means_S, squares_S, count)
    worst = -np.sqrt(2 * np.log(np.log(max(count, 3))))  # Hansen's threshold for a clear loser
    possible_S = means_S > worst * errors_S
    assured_S = np.full(len(gains_SN), -np.inf)
    if possible_S.any():
        greatest = _greatest_by_chance(gains_SN[possible_S], squares_S[possible_S, None])
        error = min(MOST_ERROR, ERROR * np.sqrt(count))
        critical = np.quantile(greatest, 1 - error, method="higher")
        assured_S[possible_S] = (means_S - critical * errors_S)[possible_S]
    return assured_S


def check_resamples(resamples: int) -> int:
    """Return the number of resamples; raise ConfigurationError unless it is a whole number above 0."""
    return integer(resamples, "resamples", least=1)


def _numbers(samples: Sequence[Any], names: Sequence[str]) -> tuple[Values, ...]:
    """Return samples as arrays; raise ConfigurationError, which names the sample, if one is not a list of numbers."""
    for each, name in zip(samples, names, strict=True):
        if not is_list(each) or np.asarray(each).dtype.kind not in "biuf" or np.ndim(each) != 1:
            raise ConfigurationError(f"{name}: expected a list of numbers, one for each item, got {shown(each)}")
    return tuple(map(np.asarray, samples))


def _batch(samples: tuple[Values, ...]) -> int:
    """Return the number of resamples that take about 30 MB of memory together."""
    return max(1, 4_000_000 // (len(samples[0]) * len(samples)))


def _greatest_by_chance(gains_SN: Values, squares_S1: Values) -> Values:
    """Return the greatest t of all settings for each of many random choices of the signs: shape (samples,)."""
    count = gains_SN.shape[1]
    random = np.random.default_rng(SEED)
    greatest = []
    for start in range(0, _SAMPLES, block := max(1, _NUMBERS_AT_ONCE // max(count, len(gains_SN)))):
        signs_BN = random.choice([-1.0, 1.0], size=(min(block, _SAMPLES - start), count))
        means_SB = gains_SN @ signs_BN.T / count
        greatest.append((means_SB / _standard_errors(means_SB, squares_S1, count)).max(axis=0))
    return np.concatenate(greatest)


def _standard_errors(means: Values, squares: Values, count: int) -> Values:
    """Return the standard errors of means of ``count`` values.

    ``squares`` are the means of the squared values, which do not change with the signs of the values.
    """
    variances = np.maximum(squares - means**2, _LEAST_VARIANCE * squares)
    errors: Values = np.sqrt(np.maximum(variances, np.finfo(np.float64).tiny) / max(count - 1, 1))
    return errors
