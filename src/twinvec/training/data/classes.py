"""The classes that softmax learns, one for each different label: their counts, and warnings of doubtful labels."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping

from twinvec.support.checks import listed
from twinvec.training.data.text_hash import normalised

logger = logging.getLogger(__name__)

_NO_GOLD = "-1"
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_LEAST_ROWS = 10  # if classes have fewer rows on average, a warning is logged
_SHOWN = 10


def classes_shown(classes: Mapping[str, int]) -> str:
    """Return one line: the number of classes, and the first ten classes with their numbers of rows."""
    counted = [f"{label!r} {rows:,}" for label, rows in classes.items()]
    return f"{len(classes):,} classes: {listed(counted, _SHOWN)}"


def log_classes(classes: Mapping[str, int]) -> None:
    """Log the classes, label -> number of rows, and warn of labels that may not be meant as classes."""
    logger.warning("data: softmax learns %s", classes_shown(classes))
    for doubt in _doubts(classes):
        logger.warning("data: %s", doubt)


def _doubts(classes: Mapping[str, int]) -> Iterator[str]:
    """Yield warnings of labels that look wrong."""
    if _NO_GOLD in classes:
        yield (
            f"rows with the label '-1': {classes[_NO_GOLD]:,}. In NLI data this label marks rows without a gold label, "
            "but softmax learns it as a class; leave these rows out"
        )
    alike: dict[str, list[str]] = {}
    for label in classes:
        alike.setdefault(normalised(label), []).append(label)
    twice = [", ".join(map(repr, labels)) for labels in alike.values() if len(labels) > 1]
    if twice:
        yield f"labels that differ only in blanks or case are learned as different classes: {'; '.join(twice[:_SHOWN])}"
    words = [label for label in classes if not _NUMBER.fullmatch(label)]
    numbers = [label for label in classes if label != _NO_GOLD and _NUMBER.fullmatch(label)]
    if numbers and words:
        yield f"some labels are numbers and some are words, such as {numbers[0]!r} and {words[0]!r}; each is a class"
    rows = sum(classes.values())
    if len(classes) * _LEAST_ROWS > rows:
        yield f"{len(classes):,} classes are many for {rows:,} rows; check that the column 'label' holds the classes"
