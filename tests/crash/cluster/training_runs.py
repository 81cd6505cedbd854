"""A small training run of several processes, the weights of one process to compare it with, and a gate to hold it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
import yaml
from safetensors.torch import load_file

STEPS = 8
CHECKPOINT_EVERY = 3
GATE = Path(__file__).with_name("gate")
_SECONDS = 300.0


def prepare(root: Path, model: Path) -> Path:
    """Write rows, a copy of the model without dropout, and the configuration of a run; return its path.

    No two processes would draw the same dropout.
    """
    calm = shutil.copytree(model, root / "calm")
    config = json.loads((calm / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (calm / "config.json").write_text(json.dumps(config))
    rows = [{"anchor": f"question {row} of many", "positive": f"answer {row} to it"} for row in range(12)]
    (root / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    values = {
        "model": str(calm),
        "objective": {"name": "info_nce"},
        "data": [{"path": "rows.jsonl"}],
        "batches": {"size": 5},
        "schedule": {"steps": STEPS, "learning_rate": 1e-3, "checkpoint_every": CHECKPOINT_EVERY},
        "device": "cpu",
    }
    (root / "run.yaml").write_text(yaml.safe_dump(values))
    return root / "run.yaml"


def assert_same_weights(found: Path, expected: Path) -> None:
    """Assert that two folders hold the same model within 1e-5, and not the one that both began with."""
    one, two, before = (load_file(path / "model.safetensors") for path in (expected, found, expected.parent / "calm"))
    # the gradient of key biases is zero but for rounding, which Adam turns into steps
    compared = [name for name in one if not name.endswith("key.bias")]
    assert len(compared) > 20
    assert max((one[name] - before[name]).abs().max() for name in compared) > 1e-3
    for name in compared:
        torch.testing.assert_close(two[name], one[name], atol=1e-5, rtol=0, msg=name)


class Note(NamedTuple):
    """What a worker did with a file.

    Attributes:
        rank: The worker.
        process: The id of its process.
        path: The file.
    """

    rank: int
    process: int
    path: Path


class Gate:
    """Holds each worker that is about to complete the second checkpoint of a run, until it is killed.

    Whoever comes after ``open`` is not held. See ``gate/sitecustomize.py``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waited = 0
        folder.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        """What the environment of the workers needs."""
        return {
            "PYTHONPATH": os.pathsep.join([str(GATE), *filter(None, sys.path)]),
            "TWINVEC_GATE": str(self._folder),
            "TWINVEC_GATE_AT": f"checkpoint-{2 * CHECKPOINT_EVERY}/complete",
            "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S": "1",  # Ray waits in vain for the worker that is held
            "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # a process for each attempt, which no test needs
        }

    def open(self) -> None:
        """Hold nobody from now on."""
        (self._folder / "open").touch()

    def end(self) -> None:
        """End the processes that are held still."""
        (self._folder / "over").touch()

    def kill(self, rank: int, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Wait until the gate holds a worker, and kill the worker of a rank; those that take its place are held again.

        Args:
            rank: The rank of the worker to kill.
            goes_on: Whether the run goes on still.
        """
        self.wait(goes_on)
        os.kill(self.workers()[rank], signal.SIGKILL)

    def wait(self, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Wait until a worker is held; each call waits for another one."""
        end = time.monotonic() + _SECONDS
        self._waited += 1
        while len(self._noted("held")) < self._waited:
            assert time.monotonic() < end, "no worker has come to the gate"
            assert goes_on(), "the run ended before a worker came to the gate"
            time.sleep(0.05)

    def wait_for_ends(self) -> None:
        """Wait until the processes of all workers have ended. One that lives may hold the lock of the run's folder."""
        end = time.monotonic() + _SECONDS
        while any(map(_lives, self.workers().values())):
            assert time.monotonic() < end, "a worker goes on"
            time.sleep(0.05)

    def workers(self) -> dict[int, int]:
        """Return the process of each rank that read the rows last."""
        return {each.rank: each.process for each in self._noted("worker")}

    def checkpoints(self) -> list[tuple[int, int]]:
        """Return (step, process) of all checkpoints that were completed."""
        marked = [each for each in self._noted("rename") if each.path.name == "complete"]
        return [(int(each.path.parent.name.removeprefix("checkpoint-")), each.process) for each in marked]

    def renamed(self, folder: Path) -> list[Note]:
        """Return the files that workers put in a folder."""
        return [each for each in self._noted("rename") if each.path.parent == folder]

    def _noted(self, kind: str) -> list[Note]:
        notes = self._folder / "notes"
        lines = notes.read_text().splitlines() if notes.exists() else []
        parts = [line.split(" ", 3) for line in lines]
        return [Note(int(rank), int(process), Path(path)) for its, rank, process, path in parts if its == kind]


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
