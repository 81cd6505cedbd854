"""Softmax's classes: how they are shown, and which labels look wrong."""

from __future__ import annotations

import logging

import pytest

from twinvec.training.data.classes import classes_shown, log_classes

NLI = {"contradiction": 30, "entailment": 30, "neutral": 1030}


def told(caplog, classes):
    """What is logged, without the list of the classes."""
    with caplog.at_level(logging.WARNING, logger="twinvec.training.data.classes"):
        log_classes(classes)
    first, *rest = (record.message for record in caplog.records)
    assert first == f"data: softmax learns {classes_shown(classes)}"
    return rest


def test_classes_are_shown_with_their_rows():
    assert classes_shown(NLI) == "3 classes: 'contradiction' 30, 'entailment' 30, 'neutral' 1,030"
    many = {f"class {n:02}": 20 for n in range(30)}
    assert classes_shown(many).startswith("30 classes: 'class 00' 20, ")
    assert classes_shown(many).endswith("'class 09' 20 and 20 more")


@pytest.mark.parametrize("classes", [NLI, {"0": 20, "1": 20, "2": 20}, {"-1": 0, "0": 5, "1": 30} | {"-1": 30}])
def test_labels_that_look_right_are_not_doubted(caplog, classes):
    assert [each for each in told(caplog, classes) if "'-1'" not in each] == []


@pytest.mark.parametrize(
    ("classes", "doubt"),
    [
        (NLI | {"-1": 7}, "rows with the label '-1': 7. "),
        (
            NLI | {"neutral ": 9},
            "differ only in blanks or case are learned as different classes: 'neutral', 'neutral '",
        ),
        (NLI | {"Neutral": 9}, "differ only in blanks or case are learned as different classes: 'neutral', 'Neutral'"),
        (NLI | {"2": 9}, "some labels are numbers and some are words, such as '2' and 'contradiction'"),
        ({f"id {n}": 9 for n in range(5)}, "5 classes are many for 45 rows"),
    ],
)
def test_labels_that_look_wrong_are_told(caplog, classes, doubt):
    found = told(caplog, classes)
    assert len(found) == 1
    assert doubt in found[0]
