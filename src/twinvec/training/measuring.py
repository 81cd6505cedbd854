"""What is measured before, while and after training, by sentence-transformers' own evaluators.

Figures are x 100. The first of them decides which checkpoint is best.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinvec.training.config import Evaluation, Source
from twinvec.training.data import Rows, open_rows

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer

Scores = dict[str, float]
Measure = Callable[[], Scores]


def encoder_measure(model: SentenceTransformer, evaluation: Evaluation, cache: Path) -> Measure:
    """Measures a bi-encoder: ``pairs.accuracy@1``, ``pairs.mrr@10``, ``sts.spearman``, ``sts.pearson``.

    Raises:
        DocumentError, ConfigurationError: a file that cannot be used; see ``open_rows``.
    """
    from sentence_transformers.sentence_transformer.evaluation import (
        EmbeddingSimilarityEvaluator,
        InformationRetrievalEvaluator,
    )

    parts: list[Measure] = []
    if evaluation.pairs is not None:
        rows = _all(open_rows(Source(path=evaluation.pairs), "info_nce", cache))
        passages = {text: str(number) for number, text in enumerate(dict.fromkeys(row["positive"] for row in rows))}
        wanted: dict[str, set[str]] = {}
        for row in rows:
            wanted.setdefault(row["anchor"], set()).add(passages[row["positive"]])
        retrieval = InformationRetrievalEvaluator(
            {anchor: anchor for anchor in wanted},
            {number: text for text, number in passages.items()},
            wanted,
            mrr_at_k=[10],
            accuracy_at_k=[1],
            write_csv=False,
        )
        parts.append(_part(retrieval, model, {"mrr@10": "cosine_mrr@10", "accuracy@1": "cosine_accuracy@1"}, "pairs"))
    if evaluation.sts is not None:
        first, second, scores = _scored(evaluation.sts, cache)
        similarity = EmbeddingSimilarityEvaluator(
            first, second, scores, similarity_fn_names=["cosine"], write_csv=False, batch_size=64
        )
        parts.append(_part(similarity, model, {"spearman": "spearman_cosine", "pearson": "pearson_cosine"}, "sts"))
    return lambda: {name: score for part in parts for name, score in part().items()}


def cross_encoder_measure(model: CrossEncoder, sts: Path, cache: Path) -> Measure:
    """Measures a cross-encoder: ``sts.spearman``, ``sts.pearson``."""
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderCorrelationEvaluator

    first, second, scores = _scored(sts, cache)
    pairs = [[one, other] for one, other in zip(first, second, strict=True)]
    evaluator = CrossEncoderCorrelationEvaluator(pairs, scores, write_csv=False)
    return _part(evaluator, model, {"spearman": "spearman", "pearson": "pearson"}, "sts")


def _part(evaluator: Any, model: Any, names: dict[str, str], group: str) -> Measure:
    def measure() -> Scores:
        found = evaluator(model)
        return {f"{group}.{ours}": 100 * float(found[theirs]) for ours, theirs in names.items()}

    return measure


def _scored(path: Path, cache: Path) -> tuple[list[str], list[str], list[float]]:
    rows = _all(open_rows(Source(path=path, score_range=None), "sts", cache))
    return [row["sentence1"] for row in rows], [row["sentence2"] for row in rows], [row["score"] for row in rows]


def _all(rows: Rows) -> list[dict[str, Any]]:
    return rows.rows(range(len(rows)))
