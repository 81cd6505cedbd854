"""Fusion: the scores of two stages -> one.

All methods take the scores of both stages for the same candidates and give one score for each; larger is better.
Scores are complete: a candidate that one stage found is scored by the other too.

``"adaptive"``, the default: z(dense) + w BM25, where z standardises over the candidates (mean 0, standard deviation 1).
    A cosine means something only beside other cosines of the same model and query, so it is standardised. A BM25 score
    is a sum of log-odds weights (Robertson and Zaragoza 2009): it says by itself how much the words tell, so w is a
    constant, 0.25. Where a query shares only common words with the documents, its BM25 scores are small and weigh
    little; methods that scale every query's BM25 scores to the same spread, or look at ranks alone, blow them up. In a
    search for keywords the sum is small because its terms are few: there, measured by the best score a term, the words
    get the spread of the vectors or more, w = 0.1 (best / terms)^2 / sd(BM25), if that is above 0.25.
``"rrf"``: the sum of 1 / (60 + rank), reciprocal rank fusion (Cormack, Clarke and Büttcher 2009). Equal scores share a
    rank; a sparse score of 0 has none.
``"distribution"``: the sum of (score - (mean - 3 sd)) / (6 sd), distribution-based score fusion, as in Qdrant.
"""

from __future__ import annotations

from numbers import Real
from typing import Literal

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError, InputError
from twinvec.support.checks import check_choice

FusionMethod = Literal["adaptive", "rrf", "distribution"]

CANDIDATES = 100
"""How many results of each stage to fuse, unless more are asked for."""

EVIDENCE = 0.25
"""Standard deviations of the dense scores that a BM25 score of 1 is worth.

Anything from 0.2 to 0.3 gives much the same on sets from captions to abstracts; see ``benchmarks/RETRIEVAL.md``.
"""

KEYWORDS = 0.1
"""How much keywords weigh, as said above; anything from 0.1 to 0.2 gives much the same."""

RRF_K = 60
_LARGEST = 1e30  # a weight; beyond, the sum is no number any more

_Scores = npt.NDArray[np.float64]


def fuse(
    dense: FloatArray,
    sparse: FloatArray,
    *,
    method: FusionMethod = "adaptive",
    weights: tuple[float, float] = (1.0, 1.0),
    terms: int | None = None,
    first: int | None = None,
) -> FloatArray:
    """Fuse the scores of n candidates: shape (n,).

    Args:
        dense: Similarities of vectors, of any scale.
        sparse: BM25 scores; 0 where no term matches.
        method: See the top of this file.
        weights: Of the dense and the sparse part of the sum.
        terms: How many terms the query has, where that is known ("adaptive" looks at it).
        first: How many candidates, from the first on, are those that means, deviations and ranks are taken among; all
            unless given. Others that come behind them then change none of their scores.

    Raises:
        InputError: the scores do not pair up, or one is not finite.
        ConfigurationError: an unknown method, or a weight that is negative or not finite.
    """
    check_method(method)
    if len(weights) != 2 or not all(isinstance(each, Real) and 0 <= each <= _LARGEST for each in weights):
        raise ConfigurationError(f"weights are two numbers from 0, for dense and sparse scores, got {weights!r}")
    d, s = _checked(dense, "dense"), _checked(sparse, "sparse")
    if d.shape != s.shape:
        raise InputError(f"expected a dense and a sparse score for each candidate, got {len(d)} and {len(s)}")
    among_d, among_s = d[:first], s[:first]
    if method == "adaptive":
        d, s = _standardized(d, among_d), _evidence(among_s, terms) * s
    elif method == "rrf":
        d, s = 1 / (RRF_K + _ranks(d, among_d)), np.where(s > 0, 1 / (RRF_K + _ranks(s, among_s)), 0.0)
    else:
        d, s = (_standardized(d, among_d) + 3) / 6, (_standardized(s, among_s) + 3) / 6
    return (weights[0] * d + weights[1] * s).astype(np.float32)


def _evidence(sparse: _Scores, terms: int | None) -> float:
    """Standard deviations of the dense scores that a BM25 score of 1 is worth for this query."""
    spread = float(sparse.std()) if sparse.size and np.ptp(sparse) > 0 else 0.0
    if not terms or not spread:
        return EVIDENCE
    return max(EVIDENCE, KEYWORDS * (float(sparse.max()) / terms) ** 2 / spread)


def check_method(method: str) -> None:
    """Refuse an unknown method.

    Raises:
        ConfigurationError: it is none of ``FusionMethod``.
    """
    check_choice(method, FusionMethod, "fusion")


def _checked(scores: FloatArray, name: str) -> _Scores:
    checked = np.asarray(scores, dtype=np.float64)
    if checked.ndim != 1:
        raise InputError(f"{name} scores: expected one number for each candidate, got shape {checked.shape}")
    bad = np.flatnonzero(~np.isfinite(checked))
    if bad.size:
        raise InputError(f"{name} scores: that of candidate {bad[0]} is {checked[bad[0]]}")
    return checked


def _standardized(scores: _Scores, among: _Scores) -> _Scores:
    """So that those they are ``among`` have mean 0 and standard deviation 1; zeros where these are all equal."""
    spread = among.std() if among.size and np.ptp(among) > 0 else 0.0  # rounding can leave equal scores a spread
    return (scores - among.mean()) / spread if spread > 0 else np.zeros_like(scores)


def _ranks(scores: _Scores, among: _Scores) -> _Scores:
    """1 for the largest; equal scores share the best of their ranks."""
    return np.searchsorted(np.sort(-among), -scores).astype(np.float64) + 1
