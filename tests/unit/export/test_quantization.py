"""How much an int8 graph lost: the figures by hand, and graphs that cannot be quantised."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import EngineError
from twinvec.export.quantization import cosine_quality, quantize, score_quality, top_overlap
from twinvec.tokens.batching import Batch


def test_overlap_of_the_ten_best():
    exact = np.arange(40, dtype=np.float32)[None].repeat(2, axis=0)
    found = exact.copy()
    assert top_overlap(exact, found) == 1
    found[0, [39, 38, 37]] = -1.0  # three of one query's ten best are lost
    assert top_overlap(exact, found) == pytest.approx(0.85)
    assert top_overlap(exact, -exact) == 0


def test_overlap_of_few_is_that_of_the_half():
    exact = np.array([[4.0, 3, 2, 1]], dtype=np.float32)
    assert top_overlap(exact, np.array([[3.0, 4, 2, 1]], dtype=np.float32)) == 1
    assert top_overlap(exact, np.array([[4.0, 2, 3, 1]], dtype=np.float32)) == 0.5


def test_quality_of_vectors():
    exact = np.random.default_rng(1).normal(size=(60, 8)).astype(np.float32)
    same = cosine_quality(exact, 3 * exact, 20)
    assert same == pytest.approx({"cosine_mean": 1, "cosine_worst": 1, "top10_overlap": 1})
    bent = exact.copy()
    bent[3] = -bent[3]
    bent[40] = -bent[40]  # not among the queries: its own cosine does not count, its place in the rankings does
    found = cosine_quality(exact, bent, 20)
    assert found["cosine_worst"] == pytest.approx(-1)
    assert found["cosine_mean"] == pytest.approx(1 - 2 / 20)
    assert 0.7 < found["top10_overlap"] < 1


def test_a_text_is_not_its_own_neighbour():
    """Vectors at right angles agree in nothing but with themselves: only that must not count."""
    exact = np.eye(40, dtype=np.float32) + np.tri(40, dtype=np.float32) * 0.01
    found = np.eye(40, dtype=np.float32) + np.tri(40, dtype=np.float32).T * 0.01
    assert cosine_quality(exact, found, 40)["top10_overlap"] < 0.8


def test_quality_of_scores():
    exact = np.random.default_rng(1).normal(size=(5, 30)).astype(np.float32)
    assert score_quality(exact, exact * 0.5 + 1) == pytest.approx({"correlation": 1, "top10_overlap": 1})
    assert score_quality(exact, -exact)["correlation"] == pytest.approx(-1)
    assert score_quality(exact, np.zeros_like(exact))["correlation"] == 0


@pytest.mark.parametrize(("runtime", "suffix"), [("openvino", ".xml"), ("onnx", ".onnx")])
def test_what_is_no_graph(tmp_path, runtime, suffix):
    path = tmp_path / f"graph{suffix}"
    path.write_text("<net")
    batch = Batch(np.ones((1, 3), dtype=np.int64), np.ones((1, 3), dtype=np.int64))
    with pytest.raises(EngineError, match="cannot be quantised"):
        quantize(runtime, path, [batch], tmp_path / f"made{suffix}", weight_bits=8)
    assert not (tmp_path / "made.xml").exists()
