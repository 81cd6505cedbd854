"""A run of two workers on a cluster has the weights of a run of one process."""

from __future__ import annotations

import json
import shutil

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def test_the_weights_are_those_of_one_process(tiny_model, tmp_path, monkeypatch):
    import os
    import sys

    import ray
    import torch
    from safetensors.torch import load_file

    from twinvec.training.run.config import TrainConfig
    from twinvec.training.run.train import train as train_alone
    from twinvec_ray import train

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    model = shutil.copytree(tiny_model("bert"), tmp_path / "calm")
    config = json.loads((model / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (model / "config.json").write_text(json.dumps(config))
    rows = [{"anchor": f"question {row} of many", "positive": f"answer {row} to it"} for row in range(12)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = TrainConfig.model_validate(
        {
            "model": str(model),
            "objective": {"name": "info_nce"},
            "data": [{"path": str(tmp_path / "rows.jsonl")}],
            "batches": {"size": 5},
            "schedule": {"steps": 8, "learning_rate": 1e-3, "checkpoint_every": 3},
            "device": "cpu",
        }
    )
    train_alone(run, tmp_path / "one")
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 * 1024 * 1024)
    try:
        report = train(run, tmp_path / "two", num_workers=2)
    finally:
        ray.shutdown()
    assert report.steps == 8
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    compared = [name for name in one if not name.endswith("key.bias")]
    for name in compared:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=0, msg=name)
