"""A run that is killed, at any moment, goes on and ends with the weights of one that was not, byte for byte.

Processes are killed for real. They are forked from one that has the libraries loaded, to be quick;
TWINVEC_KILLS says how often the random test kills (2 unless set).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("TWINVEC_KILLS", "2"))
TOPICS = ("files", "dogs", "rain", "money", "music", "bread", "stars", "doors")


@pytest.fixture(scope="module")
def processes():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["twinvec.training.run.library_trainers", "twinvec.training.run.train", "matplotlib.figure"]
    )
    return context


@pytest.fixture(scope="module")
def settings(tmp_path_factory, tiny_model):
    """A run of 16 steps with all that has a state: dropout, warm-up, scores that choose, several datasets, masks."""
    folder = tmp_path_factory.mktemp("rows")
    rows = [
        {"anchor": f"how do {t} work, part {n}", "positive": f"all about {t} {n}"} for n in range(8) for t in TOPICS
    ]
    for name, part in (("rows", rows), ("more", rows[::3]), ("dev", rows[:8])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    values = {
        "model": str(tiny_model("bert")),
        "objective": {"name": "info_nce", "symmetric": True},
        "data": [{"path": "rows.jsonl"}, {"path": "more.jsonl"}],
        "batches": {"size": 8, "datasets": 2, "kept_tokens": 60, "token_budget": 60},
        "schedule": {"steps": 16, "learning_rate": 1e-3, "log_every": 1, "checkpoint_every": 3},
        "evaluation": {"pairs": "dev.jsonl", "every": 2},
        "device": "cpu",
    }
    return values, folder


def start(processes, settings, folder, die_in=None):
    process = processes.Process(target=_train, args=(*settings, folder, die_in))
    process.start()
    return process


def _train(values, root, folder, die_in):
    """In a child: train; ``die_in`` (function, call) is where it kills itself, just before the call."""
    import torch

    from twinvec.training.run import library_trainers as trainers
    from twinvec.training.run import run_folder
    from twinvec.training.run.config import check_config
    from twinvec.training.run.train import train

    torch.set_num_threads(1)
    if die_in is not None:
        name, calls = die_in
        module = trainers if name == "mark_complete" else run_folder
        real, left = getattr(module, name), [calls]

        def dying(*arguments):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        setattr(module, name, dying)
    train(check_config(values, root, "run.yaml"), folder)


@pytest.fixture(scope="module")
def uninterrupted(processes, settings, tmp_path_factory):
    """The weights of the run that nobody killed, and how long it took."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    start(processes, settings, folder.with_name("first")).join(300)  # loads what the second has at hand
    started = time.perf_counter()
    process = start(processes, settings, folder)
    process.join(300)
    assert process.exitcode == 0
    return weights(folder), time.perf_counter() - started


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def finish(processes, settings, folder):
    process = start(processes, settings, folder)
    process.join(300)
    assert process.exitcode == 0


@pytest.mark.parametrize(
    ("die_in", "last"),
    [
        (("mark_complete", 1), "checkpoint-2"),  # half-written: no complete checkpoint to resume from
        (("mark_complete", 4), "checkpoint-6"),
        (("write_manifest", 1), "checkpoint-16"),  # the model is in place, but not known to be whole
    ],
    ids=["before the first checkpoint is complete", "while a checkpoint is written", "while the model is saved"],
)
def test_killed_where_it_hurts(processes, settings, uninterrupted, tmp_path, die_in, last):
    folder = tmp_path / "run"
    process = start(processes, settings, folder, die_in)
    process.join(300)
    assert process.exitcode == -signal.SIGKILL
    assert not (folder / "twinvec.json").exists()
    assert (folder / "checkpoints" / last).is_dir()
    finish(processes, settings, folder)
    assert weights(folder) == uninterrupted[0]


def test_killed_at_random(processes, settings, uninterrupted, tmp_path):
    folder = tmp_path / "run"
    expected, seconds = uninterrupted
    generator = random.Random(KILLS)
    killed = 0
    while killed < KILLS:
        process = start(processes, settings, folder)
        process.join(generator.uniform(0, seconds))
        if process.exitcode is None:
            process.kill()
            process.join()
            killed += 1
        elif killed < KILLS:  # it was finished before it could be killed often enough: begin again elsewhere
            assert weights(folder) == expected
            folder = tmp_path / f"run-{killed}"
    finish(processes, settings, folder)
    assert weights(folder) == expected
