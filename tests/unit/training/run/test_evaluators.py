"""What runs are measured on."""

from __future__ import annotations

import json

import pytest

from twinvec.errors import DocumentError
from twinvec.training.run.evaluators import cross_encoder_measure
from twinvec.training.settings import Evaluation


def test_a_negative_that_is_a_positive_in_other_case_is_none(tmp_path):
    row = {"anchor": "a", "positive": "the text", "negatives": ["The  Text"]}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DocumentError, match="has no negatives"):
        cross_encoder_measure(None, Evaluation(pairs=tmp_path / "dev.jsonl"), tmp_path / "cache")
