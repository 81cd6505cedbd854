"""What sentence-transformers' trainers are told, and on which device they train."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from twinvec.training.data.batch_sampler import BatchPlan, dataset_weights
from twinvec.training.data.rows import open_rows
from twinvec.training.run.building import build_parts, build_trainer
from twinvec.training.run.config import check_config
from twinvec.training.run.library_trainers import EncoderTrainer, library_arguments
from twinvec.training.run.run_folder import RunFolder


@pytest.fixture
def config(tmp_path, tiny_model):
    rows = [{"anchor": f"a{n}", "positive": f"p{n}"} for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model": str(tiny_model("bert")),
        "objective": {"name": "info_nce"},
        "data": [{"path": "rows.jsonl"}],
        "batches": {"size": 4},
        "device": "cpu",
    }
    return check_config(values, tmp_path, "run.yaml")


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "xpu"])
def test_the_trainer_uses_the_kind_of_device_that_is_configured(config, monkeypatch, device):
    monkeypatch.setattr("twinvec.training.run.library_trainers.torch_device", lambda name: torch.device(name))
    arguments = library_arguments(config.model_copy(update={"device": device}), Path("checkpoints"))
    assert arguments["use_cpu"] == (device == "cpu")
    assert arguments["dataloader_pin_memory"] == (device == "cuda")


def test_one_process_trains_on_one_gpu_however_many_there_are(config, tmp_path):
    class TwoGPUs(EncoderTrainer.training_args_class):
        """What the library's arguments say on a machine with two GPUs."""

        def __post_init__(self):
            super().__post_init__()
            assert self.n_gpu < 2
            self._n_gpu = 2

    class Trainer(EncoderTrainer):
        training_args_class = TwoGPUs

    sources = [open_rows(source, "info_nce", tmp_path / "cache") for source in config.data]
    parts = build_parts(config, sources, tmp_path / "cache")
    object.__setattr__(parts, "trainer_class", Trainer)
    plan = BatchPlan([rows.hashes for rows in sources], 4, weights=dataset_weights([4]))
    trainer = build_trainer(parts, config, RunFolder(tmp_path / "model", config, {}), plan)
    assert trainer.args.n_gpu < 2
    assert trainer.args.train_batch_size == 4
