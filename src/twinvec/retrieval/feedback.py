"""Pseudo-relevance feedback of vectors: a query moves towards the vectors of its first hits (Rocchio 1971).

The first hits count as relevant, whether they are or not. This gains where a query has many answers that are alike, and
loses where it has one and the first hits are others.
"""

from __future__ import annotations

from twinvec.arrays import FloatArray, unit
from twinvec.errors import ConfigurationError
from twinvec.support.checks import is_integer

WEIGHT = 0.75
"""Weight of the mean of the first hits, where the query has 1: Rocchio's beta, as Manning et al. 2008 advise it.

Weights from 0.5 to 1 give similar results.
"""

MOST = 100
"""Largest number of first hits."""


def moved(query_D: FloatArray, found_KD: FloatArray) -> FloatArray:
    """Return the query's vector, moved towards those of its first hits, of length 1: shape (D,).

    Vectors count by their direction only. Without hits, the direction stays.
    """
    if not len(found_KD):
        return unit(query_D)
    return unit(unit(query_D) + WEIGHT * unit(found_KD).mean(axis=0))


def check_feedback(feedback: int) -> None:
    """Raise ConfigurationError unless ``feedback`` is a number of first hits."""
    if not is_integer(feedback) or not 0 <= feedback <= MOST:
        raise ConfigurationError(f"feedback must be a whole number of first hits, from 0 to {MOST}, got {feedback!r}")
