"""Natural language inference: whether a premise entails a hypothesis.

A linear softmax classifier over (u, v, |u-v|) of two sentences' frozen vectors is measured by its accuracy (Conneau et
al. 2017; Reimers and Gurevych 2019, section 3). The classifier (head) comes from softmax training, or is fitted here:
on a training file, or by 5-fold cross-validation with all rows of a premise in one fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.models.text_model import TextModel, check_text_model, encode_pairs
from twinvec.evaluation.statistics import FOLDS, RESAMPLES, Interval, Values, check_resamples, interval
from twinvec.evaluation.tsv import check_columns, data_name, read_columns
from twinvec.support.checks import check_data, check_methods, file_path, listed
from twinvec.support.extras import import_extra

_SHOWN = 20
_EXPECTED = "an NliSet(...), as load_nli returns it"
_GIVE_TRAIN = "give a training file for the head (--nli-train)"


@dataclass(frozen=True, slots=True)
class NliSet:
    """Premises and hypotheses with their labels.

    Raises:
        InputError: the columns differ in their lengths or are empty, a text or a label is not a string, or all labels
            are equal.
    """

    name: str
    labels: list[str]
    premises: list[str]
    hypotheses: list[str]

    def __post_init__(self) -> None:
        check_columns(self, ("labels", "premises", "hypotheses"))
        _check_differ(self.name, self.labels)


@dataclass(frozen=True)
class NliResult:
    """The accuracy of one model on one set, x 100.

    Attributes:
        correct: 100 for each row with the right label, else 0: (n,).
        interval: 95% interval of the accuracy.
        figures: ``accuracy``, ``majority`` (the accuracy of the most frequent label) and ``rows``.
    """

    data: NliSet
    correct: Values
    interval: Interval
    figures: dict[str, float]


def load_nli(path: str | Path) -> NliSet:
    """Read a TSV file with the columns label, premise and hypothesis.

    Raises InputError, which names file and line, if a row is malformed, a label is empty, or all labels are equal.
    """
    path = file_path(path, "path")
    labels, premises, hypotheses = read_columns([path], ("label", "premise", "hypothesis"), _parse_label)
    _check_differ(path, labels)
    return NliSet(data_name(path), labels, premises, hypotheses)


def evaluate_nli(
    model: TextModel,
    data: NliSet,
    *,
    train: NliSet | None = None,
    head: Any = None,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> NliResult:
    """Classify pairs with a head fitted on ``train``, with a trained ``head``, or by cross-validation on ``data``.

    A trained head is a ``twinvec.training.run.softmax_head.PairClassifier``. Raises InputError if the head does not
    know a label of ``data``, or if cross-validation has fewer premises than folds, or all rows of a label in one fold.
    """
    check_nli(model, data, train=train, head=head)
    check_resamples(resamples)
    labels = np.array(data.labels)
    if train is not None:
        fitted = _head().fit(_features(model, train, progress), train.labels)
        predicted = fitted.predict(_features(model, data, progress))
    elif head is not None:
        predicted = np.array(head.label(list(zip(data.premises, data.hypotheses, strict=True))))
    else:
        from sklearn.model_selection import cross_val_predict

        predicted = cross_val_predict(_head(), _features(model, data, progress), labels, cv=_folds(data))
    correct = 100.0 * (predicted == labels)
    majority = 100 * max(data.labels.count(label) for label in set(data.labels)) / len(labels)
    figures = {"accuracy": float(correct.mean()), "majority": majority, "rows": len(labels)}
    return NliResult(data, correct, interval(correct, resamples=resamples), figures)


def check_nli(model: TextModel, data: NliSet, *, train: NliSet | None, head: Any) -> None:
    """Raise the errors of ``evaluate_nli`` before anything is encoded, and MissingExtraError without scikit-learn."""
    check_text_model(model, "encode")
    check_data(data, NliSet, "data", _EXPECTED)
    if train is not None:
        check_data(train, NliSet, "train", _EXPECTED)
        _head()  # raises if scikit-learn is not installed
        _check_labels(data, train.labels, train.name)
    elif head is not None:
        check_methods(head, ("label", "labels"), "head", "a PairClassifier(...)")
        _check_labels(data, head.labels, f"the head of {model.name}")
    else:
        _folds(data)


def _parse_label(text: str, place: str) -> str:
    if not text.strip():
        raise InputError(f"{place}: the label is empty")
    return text


def _check_differ(place: str | Path, labels: Sequence[str]) -> None:
    if len(set(labels)) < 2:
        raise InputError(f"{place}: every label is {labels[0]!r}; at least two different labels are needed")


def _check_labels(data: NliSet, known: Sequence[str], where: str) -> None:
    unknown = sorted(set(data.labels) - set(known))
    if unknown:
        labels = listed([repr(label) for label in sorted(set(known))], _SHOWN)
        raise InputError(f"{data.name}: {where} has no label {unknown[0]!r}; its labels are {labels}")


def _folds(data: NliSet) -> list[tuple[Any, Any]]:
    """Return (rows to fit on, rows to predict) for each fold."""
    selection = import_extra("sklearn.model_selection", "eval", "the head for inference")
    if len(set(data.premises)) < FOLDS:
        raise InputError(f"{data.name}: fewer than {FOLDS} premises for {FOLDS}-fold cross-validation; {_GIVE_TRAIN}")
    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(premise, len(numbers)) for premise in data.premises]
    folds = list(selection.GroupKFold(FOLDS).split(groups, groups=groups))
    labels = np.array(data.labels)
    for fitted, predicted in folds:
        lacking = sorted(set(labels[predicted]) - set(labels[fitted]))
        if lacking:
            premises = len({data.premises[row] for row in np.flatnonzero(labels == lacking[0])})
            raise InputError(
                f"{data.name}: the rows of the label {str(lacking[0])!r} share {premises} of {len(numbers)} premises, "
                f"too few for {FOLDS}-fold cross-validation; {_GIVE_TRAIN}"
            )
    return folds


def _features(model: TextModel, data: NliSet, progress: bool) -> Values:
    u, v = encode_pairs(model, data.premises, data.hypotheses, progress=progress)
    return np.concatenate([u, v, np.abs(u - v)], axis=1)


def _head() -> Any:
    import_extra("sklearn", "eval", "the head for inference")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=300))
