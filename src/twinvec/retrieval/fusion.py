"""Fusion: one score for each candidate from the scores of two stages.

Every method takes both stages' scores of the same candidates, including candidates that only one stage found. Larger
scores are better.

``"adaptive"``, the default: z(dense) + w BM25, where z standardises over the candidates (mean 0, standard deviation 1).
    Cosines are comparable only within one model and query, so they are standardised. A BM25 score is a sum of log-odds
    weights (Robertson and Zaragoza 2009) and comparable across queries, so w is a constant, 0.25. A query that shares
    only common words with the documents has small BM25 scores, which weigh little. Methods that scale every query's
    scores to the same spread, or use ranks alone, inflate such scores. A keyword query has small scores because it has
    few terms. Its best score per term shows a match, so w = 0.1 (best / terms)^2 / sd(BM25) if this is above 0.25.
    With a calibration (``retrieval.relevance``), 0.25 is multiplied by ``Calibration.words``. For a query of more than
    8 terms, 0.25 is also multiplied by sqrt(8 / terms): the terms of a long query are not independent, so the sum of
    their log-odds is too large.
    With the landmarks of a calibration: 4 above(dense) + words max(0.25 sqrt(min(1, 8 / terms)), 0.75 / terms) BM25.
    ``above`` is the place of a cosine between the landmarks. Its slope is b below landmark 0, because the order of
    unrelated texts says little: (1 - b) log(1 + exp(10 place)) / 10 + b place. b is 0.35, or 0 for a query of one term,
    which is a search for this word. Both parts are log-odds up to one factor, and no score depends on the other
    candidates. If nothing is near a query, BM25 decides; z(dense) would give the cosines the usual spread.
    Vectors mean less in a language of which the model has learnt little, and landmarks that are close to each other
    enlarge their differences. The dense part is therefore multiplied by ``Calibration.learnt`` squared. Vectors mean
    nothing for words that the model does not know. For a query or a collection of such words, the dense part is
    multiplied by 0.001, so it only orders candidates with equal BM25 scores. Vectors hardly distinguish numbers and
    codes, such as "4711". For a query with codes, the dense part is multiplied by the share of the other terms, or by
    0.01 if the share is smaller.
``"rrf"``: the sum of 1 / (60 + rank), reciprocal rank fusion (Cormack, Clarke and Büttcher 2009). Equal scores share a
    rank; a sparse score of 0 has no rank.
``"distribution"``: the sum of (score - (mean - 3 sd)) / (6 sd), distribution-based score fusion, as in Qdrant.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal

import numpy as np

from twinvec.arrays import FloatArray, ScoreArray, deviation, standardized
from twinvec.errors import ConfigurationError, InputError
from twinvec.retrieval.relevance import PLACE, Calibration, share_learnt
from twinvec.support.checks import check_choice
from twinvec.text import is_list

FusionMethod = Literal["adaptive", "rrf", "distribution"]

CANDIDATES = 100
"""Number of results of each stage that are fused, unless the limit of a search is larger."""

EVIDENCE = 0.25
"""The number w of standard deviations of the dense scores that a BM25 score of 1 is worth.

Values from 0.2 to 0.3 give similar results on sets from captions to abstracts; see ``benchmarks/RETRIEVAL.md``.
"""

KEYWORDS = 0.1
"""The factor of ``EVIDENCE`` for keyword queries; values from 0.1 to 0.2 give similar results."""

NEAR = 4.0
"""Number of standard deviations of a usual query's dense scores between the two landmarks."""

BELOW = 0.35
"""Weight of a difference of cosines below landmark 0, relative to one above it; 0.25 to 0.5 give similar results.

Among many single sentences, landmark 0 is high, and the answers of some questions lie below it.
"""

ONE_TERM = 0.75
"""The factor of the BM25 score for a query of one term, in a collection with landmarks."""

INDEPENDENT = 8
"""Number of terms above which a query's BM25 scores weigh less; values from 6 to 11 give similar results."""

UNKNOWN = 0.001
"""The factor of the dense part for words that the model does not know: it only orders equal BM25 scores."""

LEAST = 0.01
"""The smallest factor of the dense part for words that the model knows."""

RRF_K = 60
_LARGEST = 1e30  # limit of a weight; a larger weight would make the sum infinite


def fuse(
    dense: FloatArray,
    sparse: FloatArray,
    *,
    method: FusionMethod = "adaptive",
    weights: tuple[float, float] = (1.0, 1.0),
    terms: int | None = None,
    first: int | None = None,
    calibration: Calibration | None = None,
    unknown: bool = False,
    code_share: float = 0.0,
) -> FloatArray:
    """Fuse the scores of n candidates: shape (n,).

    Args:
        dense: Similarities of vectors, of any scale.
        sparse: BM25 scores; 0 where no term matches.
        method: The formula; see the module's docstring.
        weights: Weights of the dense and the sparse part of the sum.
        terms: Number of terms of the query, if known; "adaptive" uses it.
        first: Number of first candidates from which means, deviations and ranks are computed (default: all). Further
            candidates do not change the scores of the first.
        calibration: Calibration of the collection; "adaptive" uses it.
        unknown: Whether the query consists mostly of words that the model does not know; "adaptive" uses it.
        code_share: Share of the query's terms that are numbers or codes (``Analyzer.code_share``); "adaptive" uses it.

    Raises:
        InputError: the two arrays differ in length, or a score is not finite.
        ConfigurationError: the method is unknown, or a weight is negative or not finite.
    """
    check_choice(method, FusionMethod, "fusion")
    _check_weights(weights)
    d, s = _checked(dense, "dense"), _checked(sparse, "sparse")
    if d.shape != s.shape:
        raise InputError(f"expected a dense and a sparse score for each candidate, got {len(d)} and {len(s)}")
    among_d, among_s = d[:first], s[:first]
    if method == "adaptive":
        if calibration is not None and calibration.landmarks is not None:
            d, s = parts(d, s, terms, calibration)
            s = calibration.words * s
        else:
            d, s = standardized(d, among_d), _evidence(among_s, terms, calibration) * s
        is_unknown = unknown or (calibration is not None and calibration.unknown_texts)
        d = (UNKNOWN if is_unknown else max((1 - code_share) * share_learnt(calibration) ** 2, LEAST)) * d
    elif method == "rrf":
        d, s = 1 / (RRF_K + _ranks(d, among_d)), np.where(s > 0, 1 / (RRF_K + _ranks(s, among_s)), 0.0)
    else:
        d, s = (standardized(d, among_d) + 3) / 6, (standardized(s, among_s) + 3) / 6
    return (weights[0] * d + weights[1] * s).astype(np.float32)


def parts(
    dense: ScoreArray, sparse: ScoreArray, terms: int | None, calibration: Calibration
) -> tuple[ScoreArray, ScoreArray]:
    """Return the dense part and the BM25 part of the adaptive sum with landmarks, before ``calibration.words``."""
    place = calibration.place(dense)
    below = 0.0 if terms == 1 else BELOW
    above: ScoreArray = (1 - below) * np.logaddexp(0, PLACE * place) / PLACE + below * place
    return NEAR * above, max(_evidence_of_terms(terms), ONE_TERM / terms if terms else 0.0) * sparse


def _evidence(sparse: ScoreArray, terms: int | None, calibration: Calibration | None) -> float:
    """Return w for one query, in a collection without landmarks."""
    evidence = EVIDENCE if calibration is None else calibration.words * _evidence_of_terms(terms)
    spread = float(deviation(sparse))
    if not terms or not spread:
        return evidence
    return max(evidence, KEYWORDS * (float(sparse.max()) / terms) ** 2 / spread)


def _evidence_of_terms(terms: int | None) -> float:
    """Return ``EVIDENCE``, or less for a query of more than ``INDEPENDENT`` terms."""
    return EVIDENCE * math.sqrt(min(1.0, INDEPENDENT / terms)) if terms else EVIDENCE


def _check_weights(weights: Any) -> None:
    given: list[float] = list(weights) if is_list(weights) else []
    if len(given) != 2 or not all(isinstance(each, Real) and 0 <= each <= _LARGEST for each in given):
        raise ConfigurationError(
            f"weights must be two numbers of at least 0, for dense and sparse scores, got {weights!r}"
        )


def _checked(scores: FloatArray, name: str) -> ScoreArray:
    checked = np.asarray(scores, dtype=np.float64)
    if checked.ndim != 1:
        raise InputError(f"{name} scores: expected one number for each candidate, got shape {checked.shape}")
    bad = np.flatnonzero(~np.isfinite(checked))
    if bad.size:
        raise InputError(f"{name} scores: candidate {bad[0]} has {checked[bad[0]]}, expected a finite number")
    return checked


def _ranks(scores: ScoreArray, among: ScoreArray) -> ScoreArray:
    """Rank scores from 1 for the largest; equal scores share the best of their ranks."""
    return np.searchsorted(np.sort(-among), -scores).astype(np.float64) + 1
