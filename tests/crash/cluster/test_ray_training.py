"""A run of two workers on a Ray cluster, of which a worker or the driver is killed, ends as a run of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import ray

from crash.cluster.training_runs import STEPS, Gate, assert_same_weights
from twinvec.training.run.config import TrainConfig, read_config
from twinvec_ray import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

_DRIVER = """
from pathlib import Path
from twinvec.training.run.config import read_config
from twinvec_ray import train
train(read_config(Path({config!r})), {folder!r}, num_workers=2, address={address!r})
"""


@pytest.fixture
def config(trained) -> TrainConfig:
    return read_config(trained / "run.yaml")


@pytest.fixture
def gate(tmp_path, monkeypatch):
    """A gate for the workers of a cluster that this process starts."""
    made = Gate(tmp_path / "gate")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 1024 * 1024)
    yield made
    made.end()
    ray.shutdown()


def check(gate: Gate, trained: Path, folder: Path) -> None:
    """The run went on from its first checkpoint, and has the weights of one process."""
    (step, killed), *later = gate.checkpoints()
    assert step == 3
    assert [step for step, _ in later] == [6, STEPS]
    assert killed not in {process for _, process in later}
    assert_same_weights(folder, trained / "one")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_is_killed(trained, config, gate, rank):
    folder = trained / f"worker-{rank}"
    killer = threading.Thread(target=gate.kill, args=(rank,), daemon=True)
    killer.start()
    report = train(config, folder, num_workers=2)
    killer.join()
    assert report.steps == STEPS
    check(gate, trained, folder)


def test_the_driver_is_killed(trained, config, gate):
    folder = trained / "driver"
    address = ray.get_runtime_context().gcs_address
    script = _DRIVER.format(config=str(trained / "run.yaml"), folder=str(folder), address=address)
    driver = subprocess.Popen([sys.executable, "-c", script])
    try:
        gate.wait(lambda: driver.poll() is None)
    finally:
        driver.kill()
    assert driver.wait(60) == -signal.SIGKILL
    gate.open()
    report = train(config, folder, num_workers=2, max_failures=0)
    assert report.steps == STEPS
    check(gate, trained, folder)
