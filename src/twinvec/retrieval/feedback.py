"""Pseudo-relevance feedback of vectors: a query moves towards the vectors of its first hits (Rocchio 1971).

The first hits count as relevant, whether they are or not. Feedback improves the results of a query with many similar
answers. It worsens the results of a query with a single answer, if this answer is not among the first hits.
"""

from __future__ import annotations

from twinvec.arrays import FloatArray, unit
from twinvec.errors import ConfigurationError
from twinvec.support.checks import is_integer

WEIGHT = 0.75
"""Weight of the first hits' mean, relative to the query: Rocchio's beta, as Manning et al. 2008 recommend it.

Weights from 0.5 to 1 give similar results.
"""

MOST = 100
"""Largest number of first hits that feedback uses."""


def moved(query_D: FloatArray, found_KD: FloatArray) -> FloatArray:
    """Return the query's vector, moved towards the vectors of its first hits and normalised: shape (D,).

    All vectors are normalised before the move. Without hits, the query keeps its direction.
    """
    if not len(found_KD):
        return unit(query_D)
    return unit(unit(query_D) + WEIGHT * unit(found_KD).mean(axis=0))


def check_feedback(feedback: int) -> None:
    """Raise ConfigurationError unless ``feedback`` is an integer from 0 to ``MOST``."""
    if not is_integer(feedback) or not 0 <= feedback <= MOST:
        raise ConfigurationError(f"feedback must be a whole number of first hits, from 0 to {MOST}, got {feedback!r}")
