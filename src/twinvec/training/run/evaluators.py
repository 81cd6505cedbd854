"""Measurements during training, x 100; the first score chooses the checkpoint.

Evaluators of sentence-transformers compute the scores, except for the correlations of a bi-encoder, which are those of
``twinvec evaluate --sts``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.cross_encoder.evaluation import (
    CrossEncoderCorrelationEvaluator,
    CrossEncoderRerankingEvaluator,
)
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.util import cos_sim

from twinvec.correlation import pair_similarities, pearson, spearman
from twinvec.errors import DocumentError
from twinvec.training.data.rows import Row, open_rows
from twinvec.training.data.text_hash import text_hash
from twinvec.training.run.config import FieldError
from twinvec.training.run.model_card import Scores
from twinvec.training.settings import Evaluation, Source

Measurement = Callable[[], Scores]
_Part = tuple[str, Any, dict[str, str]]
"""A prefix for scores, a function from a model to scores, and the name of each score here -> its name there."""


def encoder_measure(model: SentenceTransformer, evaluation: Evaluation, cache: Path) -> Measurement:
    """Measure a bi-encoder by cosine: ``pairs.accuracy@1``, ``pairs.mrr@10``, ``sts.spearman``, ``sts.pearson``."""
    parts: list[_Part] = []
    if evaluation.pairs is not None:
        rows = _all_rows(evaluation.pairs, "pairs", evaluation, cache)
        passages = {text: str(number) for number, text in enumerate(dict.fromkeys(row["positive"] for row in rows))}
        if len(passages) < 2:
            raise DocumentError(f"{evaluation.pairs}: all rows have the same positive, so each anchor finds it")
        wanted: dict[str, set[str]] = {}
        for row in rows:
            wanted.setdefault(row["anchor"], set()).add(passages[row["positive"]])
        retrieval = InformationRetrievalEvaluator(
            {anchor: anchor for anchor in wanted},
            {number: text for text, number in passages.items()},
            wanted,
            score_functions={"cosine": cos_sim},
            mrr_at_k=[10],
            accuracy_at_k=[1],
            write_csv=False,
        )
        parts.append(("pairs", retrieval, {"mrr@10": "cosine_mrr@10", "accuracy@1": "cosine_accuracy@1"}))
    if evaluation.sts is not None:
        first, second, scores = _scored(evaluation.sts, evaluation, cache)
        parts.append(
            ("sts", partial(_correlations, first, second, scores), {"spearman": "spearman", "pearson": "pearson"})
        )
    return _measure(model, evaluation, parts)


def _correlations(
    first: list[str], second: list[str], scores: list[float], model: SentenceTransformer
) -> dict[str, float]:
    """Return the correlations of cosines and scores; NaN if all cosines or all scores are equal."""
    sides = [model.encode(texts, batch_size=64, show_progress_bar=False) for texts in (first, second)]
    cosines, gold = pair_similarities(*sides)["cosine"], np.array(scores)
    if np.ptp(cosines) == 0 or np.ptp(gold) == 0:
        return dict.fromkeys(("spearman", "pearson"), math.nan)
    return {"spearman": spearman(cosines, gold) / 100, "pearson": pearson(cosines, gold) / 100}


def cross_encoder_measure(model: CrossEncoder, evaluation: Evaluation, cache: Path) -> Measurement:
    """Measure a cross-encoder: ``pairs.mrr@10``, ``pairs.ndcg@10``, ``sts.spearman``, ``sts.pearson``."""
    parts: list[_Part] = []
    if evaluation.pairs is not None:
        candidates = _candidates(evaluation.pairs, evaluation, cache)
        reranking = CrossEncoderRerankingEvaluator(candidates, at_k=10, write_csv=False)
        parts.append(("pairs", reranking, {"mrr@10": "mrr@10", "ndcg@10": "ndcg@10"}))
    if evaluation.sts is not None:
        first, second, scores = _scored(evaluation.sts, evaluation, cache)
        pairs = [[one, other] for one, other in zip(first, second, strict=True)]
        correlation = CrossEncoderCorrelationEvaluator(pairs, scores, write_csv=False)
        parts.append(("sts", correlation, {"spearman": "spearman", "pearson": "pearson"}))
    return _measure(model, evaluation, parts)


def _measure(model: Any, evaluation: Evaluation, parts: list[_Part]) -> Measurement:
    def measure() -> Scores:
        scores: Scores = {}
        for group, evaluator, names in parts:
            found = evaluator(model)
            scores |= {f"{group}.{ours}": 100 * float(found[theirs]) for ours, theirs in names.items()}
        for name, score in scores.items():
            if not math.isfinite(score):
                group = name.partition(".")[0]
                raise FieldError(
                    f"evaluation.{group}: {getattr(evaluation, group)}: {name} is not a number: all scores in the file "
                    "are equal, or the model gives all pairs the same score"
                )
        return scores

    return measure


def _candidates(path: Path, evaluation: Evaluation, cache: Path) -> list[dict[str, Any]]:
    """Return the positives and negatives of anchors; raise DocumentError if no anchor has negatives."""
    positives: dict[str, dict[str, None]] = {}
    negatives: dict[str, dict[str, None]] = {}
    for row in _all_rows(path, "binary", evaluation, cache):
        positives.setdefault(row["anchor"], {})[row["positive"]] = None
        negatives.setdefault(row["anchor"], {}).update(dict.fromkeys(row.get("negatives", ())))
    samples = []
    for anchor, own in positives.items():
        known = set(map(text_hash, own))
        others = [text for text in negatives[anchor] if text_hash(text) not in known]
        if others:
            samples.append({"query": anchor, "positive": list(own), "negative": others})
    if not samples:
        raise DocumentError(f"{path}: has no negatives to rank the positives against; 'twinvec mine' finds negatives")
    return samples


def _scored(path: Path, evaluation: Evaluation, cache: Path) -> tuple[list[str], list[str], list[float]]:
    rows = _all_rows(path, "sts", evaluation, cache)
    if len(rows) < 2:
        raise DocumentError(f"{path}: has one row, but a correlation of scores needs at least two")
    return [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], [row["score"] for row in rows]


def _all_rows(path: Path, objective: str, evaluation: Evaluation, cache: Path) -> list[Row]:
    rows = open_rows(Source(path=path, columns=evaluation.columns, score_range=None), objective, cache)
    return rows.rows(range(len(rows)))
