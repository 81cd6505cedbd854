"""Three tasks that are measured by cosine: labelled pairs, triplets, and questions with their answers.

A model tells whether the texts of a pair have the same meaning, which of two texts is nearer to an anchor, and which of
all answers belongs to a question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.models.text_model import TextModel, check_text_model, encode_pairs, once_each
from twinvec.evaluation.statistics import RESAMPLES, Values, check_resamples, interval, share
from twinvec.evaluation.sts import pair_similarities
from twinvec.evaluation.tsv import check_columns, data_name, read_columns, read_table
from twinvec.retrieval.documents import Document
from twinvec.support.checks import check_data, file_path, plain_scalar, shown
from twinvec.support.extras import import_extra
from twinvec.support.lines import is_jsonl, read_jsonl, text_field
from twinvec.text import is_list


@dataclass(frozen=True, slots=True)
class LabelledPairs:
    """Sentence pairs with the same meaning (1) or different meanings (0), as three columns of equal length.

    Raises:
        InputError: the columns differ in their lengths, a text is not a string, a label is neither 0 nor 1, or all
            labels are equal.
    """

    name: str
    first: list[str]
    second: list[str]
    labels: Values

    def __post_init__(self) -> None:
        labels = list(self.labels) if is_list(self.labels) else [self.labels]
        wrong = [each for each in labels if not isinstance(plain_scalar(each), int | float) or each not in (0, 1)]
        if wrong:
            raise InputError(f"{self.name}: labels: expected a list of 0 and 1, got {shown(wrong[0])}")
        object.__setattr__(self, "labels", np.array(labels, dtype=np.float64))
        check_columns(self, ("first", "second"), {"labels": len(labels)})
        if len(set(labels)) < 2:
            raise InputError(f"{self.name}: labels: both 0 and 1 are needed")


@dataclass(frozen=True, slots=True)
class Triplets:
    """Anchors, each with a positive, which should be nearer, and a negative, which should be farther.

    Raises:
        InputError: the columns differ in their lengths or are empty, or a text is not a string.
    """

    name: str
    anchors: list[str]
    positives: list[str]
    negatives: list[str]

    def __post_init__(self) -> None:
        check_columns(self, ("anchors", "positives", "negatives"))


def load_labelled_pairs(path: str | Path) -> LabelledPairs:
    """Read a TSV file with the columns label (0 or 1), sentence1 and sentence2.

    Raises InputError, which names file and line, if a row is malformed or all labels are equal.
    """
    path = file_path(path, "path")
    labels, first, second = read_columns([path], ("label", "sentence1", "sentence2"), _parse_binary)
    if len(set(labels)) == 1:
        raise InputError(f"{path}: every label is {labels[0]:g}; both 0 and 1 are needed")
    return LabelledPairs(data_name(path), first, second, np.array(labels))


def load_triplets(path: str | Path) -> Triplets:
    """Read a JSON lines or TSV file with anchor, positive and negative; an InputError names file and line."""
    path = file_path(path, "path")
    rows = _rows(path, ("anchor", "positive", "negative"))
    anchors, positives, negatives = map(list, zip(*rows, strict=True))
    return Triplets(data_name(path), anchors, positives, negatives)


def load_questions(path: str | Path) -> BeirSet:
    """Read questions and answers as a retrieval set, in which a question must find its answers among all answers.

    A row of the JSON lines or TSV file has anchor (the question) and positive (an answer); equal texts count once.
    Raises InputError, which names file and line, if a row is malformed.
    """
    path = file_path(path, "path")
    questions: dict[str, str] = {}
    answers: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for anchor, positive in _rows(path, ("anchor", "positive")):
        question = questions.setdefault(anchor, f"q{len(questions)}")
        answer = answers.setdefault(positive, f"a{len(answers)}")
        qrels.setdefault(question, {})[answer] = 1
    documents = [Document(identity, text) for text, identity in answers.items()]
    return BeirSet(data_name(path), documents, {identity: text for text, identity in questions.items()}, qrels)


def evaluate_pairs(
    model: TextModel, data: LabelledPairs, *, resamples: int = RESAMPLES, progress: bool = False
) -> dict[str, Any]:
    """Measure how well the cosine separates pairs with the same meaning from the others.

    Figures: ``average_precision`` with its interval, ``rows``, and the best ``accuracy`` and ``f1``, each with its
    threshold. A pair counts as having the same meaning if its cosine is at or above the threshold.
    """
    check_data(data, LabelledPairs, "data", "LabelledPairs(...), as load_labelled_pairs returns them")
    check_resamples(resamples)
    sklearn = import_sklearn_metrics()
    cosines = pair_similarities(*encode_pairs(model, data.first, data.second, progress=progress))["cosine"]
    false_rates, true_rates, levels = sklearn.roc_curve(data.labels, cosines, drop_intermediate=False)
    positives = float(data.labels.sum())
    negatives = len(data.labels) - positives
    correct = true_rates * positives + (1 - false_rates) * negatives
    accuracy = correct[1:] / len(data.labels)  # the first threshold is infinity
    precision, recall, thresholds = sklearn.precision_recall_curve(data.labels, cosines)
    f1 = (2 * precision * recall / np.maximum(precision + recall, 1e-12))[:-1]
    bounds = interval(cosines, data.labels, statistic=_average_precision, resamples=resamples)
    return {
        "average_precision": float(_average_precision(cosines, data.labels)),
        "average_precision_interval": bounds.bounds,
        "accuracy": 100 * float(accuracy.max()),
        "accuracy_threshold": float(levels[1:][accuracy.argmax()]),
        "f1": 100 * float(f1.max()),
        "f1_threshold": float(thresholds[f1.argmax()]),
        "rows": len(cosines),
    }


def evaluate_triplets(model: TextModel, data: Triplets, *, progress: bool = False) -> dict[str, Any]:
    """Measure how often the positive is nearer than the negative. Anchors are queries, the other texts documents.

    Figures: ``accuracy`` with its interval; ``margin``, the mean difference of the cosines; ``rows``.
    """
    check_data(data, Triplets, "data", "Triplets(...), as load_triplets returns them")
    check_text_model(model, "encode_query", "encode_document")
    anchors = once_each(model.encode_query, data.anchors)
    texts = once_each(partial(model.encode_document, progress=progress), [*data.positives, *data.negatives])
    near, far = (pair_similarities(anchors, part)["cosine"] for part in np.split(texts, 2))
    gaps = near - far
    accuracy, bounds = share(gaps > 0)
    return {
        "accuracy": accuracy,
        "accuracy_interval": bounds.bounds,
        "margin": 100 * float(gaps.mean()),
        "rows": len(gaps),
    }


def _average_precision(cosines: Values, labels: Values, axis: int = -1) -> Any:
    """Return the average precision x 100 along the last axis; 0 for a sample without a pair of the same meaning."""
    score = import_sklearn_metrics().average_precision_score
    rows = zip(np.atleast_2d(labels), np.atleast_2d(cosines), strict=True)
    found = np.array([100 * score(truth, values) if truth.any() else 0.0 for truth, values in rows])
    return found if cosines.ndim > 1 else found[0]


def _parse_binary(text: str, place: str) -> float:
    if text not in ("0", "1", "0.0", "1.0"):  # pandas writes the latter
        raise InputError(f"{place}: label {text!r} is neither 0 nor 1")
    return float(text)


def _rows(path: Path, columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    if is_jsonl(path):
        return [tuple(text_field(row, name, place) for name in columns) for place, row in read_jsonl(path)]
    return [texts for _, texts in read_table(path, columns)]


def import_sklearn_metrics() -> Any:
    """Import sklearn.metrics; errors are those of ``import_extra``."""
    return import_extra("sklearn.metrics", "eval", "judging labelled pairs")
