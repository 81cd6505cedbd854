"""Training on a GPU: gradients in chunks and in half precision, checkpoints, objectives."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from twinvec import Encoder
from twinvec.training.run import library_trainers as trainers
from twinvec.training.run.config import check_config
from twinvec.training.run.train import train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

TOPICS = ("files", "dogs", "rain", "money", "music", "bread", "stars", "doors")
PAIRS = [{"anchor": f"how do {t} work, part {n}", "positive": f"all about {t} {n}"} for n in range(8) for t in TOPICS]


@pytest.fixture
def run(tmp_path, tiny_model, tiny_cross_encoder):
    """``run(name, **settings)``: train into a folder of that name."""

    def start(name, schedule=None, rows=PAIRS, kind="bi-encoder", **settings):
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        model = tiny_cross_encoder("bert") if kind == "cross-encoder" else tiny_model("bert")
        values = {
            "kind": kind,
            "model": str(model),
            "data": [{"path": "rows.jsonl"}],
            "objective": {"name": "info_nce", "symmetric": True},
            "batches": {"size": 16},
            "schedule": {"steps": 8, "learning_rate": 1e-3, "log_every": 1, "checkpoint_every": 3, **(schedule or {})},
            "device": "cuda",
            **settings,
        }
        return train(check_config(values, tmp_path, "run.yaml"), tmp_path / name)

    return start


def weights(folder):
    return load_file(folder / "model.safetensors")


def farthest(one, two):
    return max(np.abs(value - two[name]).max() for name, value in one.items())


@pytest.fixture
def no_dropout(tiny_model):
    """Dropout draws other masks on a GPU, so both devices train without it."""
    settings = tiny_model("bert") / "config.json"
    before = settings.read_text()
    settings.write_text(
        json.dumps(json.loads(before) | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    )
    yield
    settings.write_text(before)


@pytest.mark.parametrize("batches", [{}, {"kept_tokens": 60, "token_budget": 60}], ids=["whole", "chunks"])
def test_a_run_is_that_of_the_cpu(run, no_dropout, tmp_path, batches):
    cpu = run("cpu", device="cpu", batches={"size": 16, **batches})
    gpu = run("gpu", batches={"size": 16, **batches})
    assert gpu.loss == pytest.approx(cpu.loss, rel=1e-3)
    # AdamW moves a weight by the sign of its gradient, also where that is almost 0. The eight steps move one by up to
    # 4e-3; on an H200, the farthest were 1.1e-3 apart.
    assert farthest(weights(tmp_path / "cpu"), weights(tmp_path / "gpu")) < 2e-3


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_every_precision_learns(run, tmp_path, precision):
    evaluation = {"pairs": "rows.jsonl", "every": 4}
    report = run("model", {"steps": 24, "precision": precision}, evaluation=evaluation)
    assert report.after["pairs.mrr@10"] > report.before["pairs.mrr@10"]
    assert Encoder(tmp_path / "model").encode("how do files work").shape == (32,)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_run_that_was_interrupted_goes_on(run, monkeypatch, tmp_path, precision):
    chunks = {"size": 16, "kept_tokens": 60, "token_budget": 60}
    run("whole", {"precision": precision}, batches=chunks)
    real, left = trainers.mark_complete, [2]

    def interrupted(*arguments):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(trainers, "mark_complete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run("cut", {"precision": precision}, batches=chunks)
    run("cut", {"precision": precision}, batches=chunks)
    assert farthest(weights(tmp_path / "whole"), weights(tmp_path / "cut")) < 1e-5


OBJECTIVES = {
    "triplet": [{"anchor": a["anchor"], "positive": a["positive"], "negative": "all about"} for a in PAIRS],
    "contrastive": [
        {"sentence1": a["anchor"], "sentence2": a["positive"], "label": n % 2} for n, a in enumerate(PAIRS)
    ],
    "cosine_regression": [{"sentence1": a["anchor"], "sentence2": a["positive"], "score": 0.5} for a in PAIRS],
    "margin_mse": [{**a, "negatives": ["all about", "nothing"], "scores": [0.9, 0.1, 0.3]} for a in PAIRS],
    "softmax": [
        {"sentence1": a["anchor"], "sentence2": a["positive"], "label": "abc"[n % 3]} for n, a in enumerate(PAIRS)
    ],
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_other_objectives(run, name):
    assert np.isfinite(run("model", rows=OBJECTIVES[name], objective={"name": name}).loss)


def test_margin_and_matryoshka(run):
    objective = {"name": "info_nce", "false_negative_margin": 0.1}
    assert np.isfinite(run("model", objective=objective, matryoshka=[8, 16]).loss)


def test_a_cross_encoder(run):
    rows = [{"sentence1": a["anchor"], "sentence2": a["positive"], "score": n % 2} for n, a in enumerate(PAIRS)]
    report = run("model", {"precision": "bfloat16"}, rows, "cross-encoder", objective={"name": "graded"})
    assert np.isfinite(report.loss)
