"""Semantic textual similarity: correlations of four similarities of sentence pairs with human scores, over all rows.

Sources: Agirre et al. 2012, Cer et al. 2017; Spearman as the main figure: Reimers, Beyer and Gurevych 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.correlation import import_scipy_stats
from twinvec.correlation import pair_similarities as pair_similarities
from twinvec.correlation import pearson as pearson
from twinvec.correlation import spearman as spearman
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.models.text_model import TextModel, encode_pairs
from twinvec.evaluation.statistics import (
    RESAMPLES,
    Interval,
    PairedTest,
    Values,
    check_resamples,
    interval,
    paired_test,
)
from twinvec.evaluation.tsv import check_columns, data_name, parse_number, read_columns
from twinvec.support.checks import check_data, file_path


@dataclass(frozen=True, slots=True)
class StsSet:
    """Scored sentence pairs, as three columns of equal length.

    Raises:
        InputError: the columns differ in their lengths, a text is not a string, or a score is not a finite number; or
            no two scores differ.
    """

    name: str
    first: list[str]
    second: list[str]
    gold: Values

    def __post_init__(self) -> None:
        object.__setattr__(self, "gold", _scores(self.name, self.gold))
        check_columns(self, ("first", "second"), {"gold": len(self.gold)})
        _check_differ(self.name, self.gold)


def _scores(name: str, given: Any) -> Values:
    try:
        scores: Values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: expected a list of scores: {error}") from None
    if scores.ndim != 1:
        raise InputError(f"{name}: expected a list of scores, got an array of shape {scores.shape}")
    bad = np.flatnonzero(~np.isfinite(scores))
    if bad.size:
        raise InputError(f"{name}: score {bad[0]} is not finite")
    return scores


def _check_differ(place: str | Path, scores: Values) -> None:
    if np.ptp(scores) == 0:
        found = f"all {len(scores)} scores are {scores[0]:g}"
        raise InputError(f"{place}: {found}; a correlation needs scores that differ")


@dataclass(frozen=True)
class StsResult:
    """The correlations of one model on one set, x 100.

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
    path = file_path(path, "path")
    files = sorted(path.glob("*.tsv")) if path.is_dir() else [path]
    if not files:
        raise InputError(f"{path}: no .tsv file in this folder")
    gold, first, second = read_columns(files, ("score", "sentence1", "sentence2"), parse_number)
    scores = np.array(gold, dtype=np.float64)
    _check_differ(path, scores)
    return StsSet(data_name(path), first, second, scores)


def evaluate_sts(model: TextModel, data: StsSet, *, resamples: int = RESAMPLES, progress: bool = False) -> StsResult:
    """Encode both sides of all pairs, and correlate their similarities with the scores.

    Figures: ``spearman`` and ``pearson`` (of cosines), also with ``_dot``, ``_euclidean``, ``_manhattan``; ``rows``. A
    similarity that is equal for all pairs has the correlation 0.
    """
    check_data(data, StsSet, "data", "an StsSet(...), as load_sts returns it")
    check_resamples(resamples)
    import_scipy_stats()
    similarities = pair_similarities(*encode_pairs(model, data.first, data.second, progress=progress))
    figures: dict[str, float] = {}
    for name, values in similarities.items():
        suffix = "" if name == "cosine" else f"_{name}"
        figures[f"spearman{suffix}"] = float(spearman(values, data.gold))
        figures[f"pearson{suffix}"] = float(pearson(values, data.gold))
    bounds = interval(similarities["cosine"], data.gold, statistic=spearman, resamples=resamples)
    return StsResult(data, similarities, bounds, {**figures, "rows": len(data.first)})


def compare_sts(first: StsResult, second: StsResult, *, resamples: int = RESAMPLES) -> PairedTest:
    """Test two models on the same pairs by Spearman of the cosines.

    The test swaps ranks between the models, because their cosines have different scales. Raises ConfigurationError if
    the results are of different pairs.
    """
    rankdata = import_scipy_stats().rankdata
    for name, result in (("first", first), ("second", second)):
        check_data(result, StsResult, name, "an StsResult, as evaluate_sts returns it")
    if (first.data.first, first.data.second) != (second.data.first, second.data.second):
        raise ConfigurationError("first, second: the results are of different pairs; measure both on one set")
    ranks = [rankdata(result.similarities["cosine"]) for result in (first, second)]
    return paired_test(ranks[0], ranks[1], first.data.gold, statistic=spearman, resamples=resamples)
