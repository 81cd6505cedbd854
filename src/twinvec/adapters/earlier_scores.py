"""Scores of an earlier stage, completed for a reranker that mixes them with its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real


def completed(scores: Sequence[object]) -> list[float]:
    """Return the scores of one list of candidates as numbers; a missing one becomes the mean of the others.

    Candidates without a score come from other retrievers, or are neighbours of a hit. With the mean, the earlier stage
    speaks neither for them nor against them. If no candidate has a score, all get 0.
    """
    numbers = [float(each) if isinstance(each, Real) and math.isfinite(each) else None for each in scores]
    known = [each for each in numbers if each is not None]
    mean = sum(known) / len(known) if known else 0.0
    return [mean if each is None else each for each in numbers]
