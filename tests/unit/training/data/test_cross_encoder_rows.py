"""Rows of positives and negatives as the pairs of a cross-encoder."""

from __future__ import annotations

import json

import pytest

from twinvec.errors import DocumentError
from twinvec.training.data import cross_encoder_rows as pair_rows
from twinvec.training.data.cross_encoder_rows import PairRows
from twinvec.training.data.rows import open_rows
from twinvec.training.settings import Source


def opened(tmp_path, objective, rows) -> PairRows:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return PairRows(open_rows(Source(path=path), objective, tmp_path / "cache"))


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_a_row_becomes_a_pair_for_its_positive_and_each_negative(tmp_path, monkeypatch, at_once) -> None:
    monkeypatch.setattr(pair_rows, "_AT_ONCE", at_once)
    negatives = (["n0"], [], ["n1", "n2"])
    rows = [{"anchor": f"a{n}", "positive": f"p{n}", "negatives": texts} for n, texts in enumerate(negatives)]
    pairs = opened(tmp_path, "binary", rows)
    expected = [("a0", "p0", 1), ("a0", "n0", 0), ("a1", "p1", 1), ("a2", "p2", 1), ("a2", "n1", 0), ("a2", "n2", 0)]
    assert len(pairs) == len(expected)
    order = [4, 0, 5, 2, 1, 3]
    found = [(row["sentence1"], row["sentence2"], row["label"]) for row in pairs.rows(order)]
    assert found == [expected[index] for index in order]


def test_scored_rows_stay_as_they_are(tmp_path) -> None:
    pairs = opened(tmp_path, "graded", [{"sentence1": "a", "sentence2": "b", "score": 0.25}])
    assert pairs.rows([0]) == [{"sentence1": "a", "sentence2": "b", "label": 0.25}]


def test_positives_alone_are_refused(tmp_path) -> None:
    with pytest.raises(DocumentError, match="twinvec mine"):
        opened(tmp_path, "binary", [{"anchor": "a", "positive": "p"}, {"anchor": "b", "positive": "q"}])
