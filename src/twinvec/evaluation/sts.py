"""Semantic textual similarity: correlations of four similarities of sentence pairs with human scores, over all rows.

Sources: Agirre et al. 2012, Cer et al. 2017; Spearman as the main figure: Reimers, Beyer and Gurevych 2016.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.models.text_model import TextModel, encode_pairs
from twinvec.evaluation.statistics import RESAMPLES, Interval, PairedTest, Values, interval, paired_test
from twinvec.evaluation.tsv import data_name, parse_number, read_columns


@dataclass(frozen=True, slots=True)
class StsSet:
    """Scored sentence pairs."""

    name: str
    first: list[str]
    second: list[str]
    gold: Values


@dataclass(frozen=True)
class StsResult:
    """Correlations, x 100.

    Attributes:
        similarities: Similarity -> its value for each pair; distances are negated.
        interval: 95% interval of Spearman's correlation of the cosines.
    """

    data: StsSet
    similarities: Mapping[str, Values]
    interval: Interval
    figures: dict[str, float] = field(default_factory=dict)


def load_sts(path: str | Path) -> StsSet:
    """Read a TSV file with the columns score, sentence1 and sentence2, or a folder of such files as one set.

    Raises:
        InputError: a file is missing, a row is malformed, or all scores are equal; the message names file and line.
    """
    path = Path(path)
    files = sorted(path.glob("*.tsv")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: no .tsv file in this folder")
    gold, first, second = read_columns(files, ("score", "sentence1", "sentence2"), parse_number)
    scores = np.array(gold, dtype=np.float64)
    if np.ptp(scores) == 0:
        raise InputError(f"{path}: all {len(scores)} scores are {scores[0]:g}; a correlation needs scores that differ")
    return StsSet(data_name(path), first, second, scores)


def evaluate_sts(model: TextModel, data: StsSet, *, resamples: int = RESAMPLES, progress: bool = False) -> StsResult:
    """Encode both sides of all pairs, and correlate their similarities with the scores.

    Figures: ``spearman`` and ``pearson`` (of cosines), also with ``_dot``, ``_euclidean``, ``_manhattan``; ``rows``. A
    similarity that is equal for all pairs has the correlation 0.
    """
    similarities = pair_similarities(*encode_pairs(model, data.first, data.second, progress=progress))
    figures: dict[str, float] = {}
    for name, values in similarities.items():
        suffix = "" if name == "cosine" else f"_{name}"
        figures[f"spearman{suffix}"] = float(spearman(values, data.gold))
        figures[f"pearson{suffix}"] = float(pearson(values, data.gold))
    bounds = interval(similarities["cosine"], data.gold, statistic=spearman, resamples=resamples)
    return StsResult(data, similarities, bounds, {**figures, "rows": len(data.first)})


def compare_sts(first: StsResult, second: StsResult, *, resamples: int = RESAMPLES) -> PairedTest:
    """Test two models on the same pairs by Spearman of the cosines; swaps exchange ranks, which share a scale."""
    from scipy.stats import rankdata

    ranks = [rankdata(result.similarities["cosine"]) for result in (first, second)]
    return paired_test(ranks[0], ranks[1], first.data.gold, statistic=spearman, resamples=resamples)


def pair_similarities(first_ND: Values, second_ND: Values) -> dict[str, Values]:
    """Return cosine, dot product, negated Euclidean and negated Manhattan distance of each row, each of shape (n,).

    The cosine with a zero vector is 0. All values are rounded to 6 decimals; of vectors shorter than 1, relative to the
    longest.
    """
    a, b = first_ND.astype(np.float64), second_ND.astype(np.float64)
    lengths = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    dot, norms = np.einsum("nd,nd->n", a, b), lengths[0] * lengths[1]
    cosine = np.divide(dot, norms, out=np.zeros_like(dot), where=norms > 0)
    size = min(np.max(lengths, initial=0), 1) or 1
    # rounded: the order in which products are summed must not decide between equal pairs
    return {
        "cosine": np.round(cosine, 6),
        "dot": np.round(dot / size**2, 6) * size**2,
        "euclidean": -np.round(np.linalg.norm(a - b, axis=1) / size, 6) * size,
        "manhattan": -np.round(np.abs(a - b).sum(axis=1) / size, 6) * size,
    }


def spearman(values: Values, gold: Values, axis: int = -1) -> Any:
    """Spearman's rank correlation x 100, with ties at their mean rank; 0 if one side is constant."""
    from scipy.stats import rankdata

    return pearson(rankdata(values, axis=axis), rankdata(gold, axis=axis), axis=axis)


def pearson(values: Values, gold: Values, axis: int = -1) -> Any:
    """Pearson's correlation x 100; 0 if one side is constant."""
    from scipy.stats import ConstantInputWarning, pearsonr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConstantInputWarning)
        return 100 * np.nan_to_num(pearsonr(values, gold, axis=axis).statistic)
