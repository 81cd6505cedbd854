"""The weight of words in a hybrid search, fitted to queries whose answers are known.

The probability that a candidate is the answer is modelled as the softmax over all candidates of sharpness * (dense part
+ weight * words part), a conditional logit model (McFadden 1974). Weight and sharpness maximise the likelihood of all
answers. A normal prior on the logarithm of the weight keeps the weight stable. The prior's median is the usual weight
for texts with as many different terms (``relevance.usual_words``). Queries that are taken from the texts show only a
part of the difference between collections, because people ask in other words than those of the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from twinvec.arrays import ScoreArray

SPREAD = 0.3
"""Standard deviation of the prior, in natural logarithms."""

BOUNDS = (0.5, 10.0)
"""The smallest and the largest weight, so that a sample cannot turn off a stage."""

_WEIGHTS = np.exp(np.linspace(np.log(BOUNDS[0]), np.log(BOUNDS[1]), 61))
_SHARPNESSES = np.exp(np.linspace(np.log(0.1), np.log(5), 25))


@dataclass(frozen=True, slots=True)
class Observation:
    """Both parts of the fused scores of a query's candidates, shape (n,), and the row of the answer."""

    dense: ScoreArray
    words: ScoreArray
    answer: int


def fitted_weight(observations: Sequence[Observation], usual: float) -> float:
    """Return the most probable weight, rounded to two digits. Without observations, this is the ``usual`` weight."""
    priors = -0.5 * ((np.log(_WEIGHTS) - np.log(usual)) / SPREAD) ** 2
    likelihoods = [_log_likelihoods(observations, weight).max() for weight in _WEIGHTS]
    return round(float(_WEIGHTS[int(np.argmax(priors + likelihoods))]), 2)


def _log_likelihoods(observations: Sequence[Observation], weight: float) -> ScoreArray:
    """Return the logarithm of the likelihood for each sharpness."""
    sums = np.zeros(len(_SHARPNESSES))
    for each in observations:
        scores_N = each.dense + weight * each.words
        scores_SN = _SHARPNESSES[:, None] * (scores_N - scores_N.max())
        sums += scores_SN[:, each.answer] - np.log(np.exp(scores_SN).sum(axis=1))
    return sums
