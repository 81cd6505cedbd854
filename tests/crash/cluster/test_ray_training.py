"""A run of two workers on a Ray cluster, of which a worker, a node or the driver is killed, ends as one process's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import ray
from ray.cluster_utils import Cluster

from crash.cluster.training_runs import STEPS, Gate, assert_same_weights
from patient_ray import patient
from twinvec.training.run.config import TrainConfig, read_config
from twinvec_ray import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

_DRIVER = """
from pathlib import Path
from twinvec.training.run.config import read_config
from twinvec_ray import train
train(read_config(Path({config!r})), {folder!r}, num_workers=2, address={address!r})
"""

_NODE = {"include_dashboard": False, "object_store_memory": 100 * 1024 * 1024}


@pytest.fixture
def config(trained) -> TrainConfig:
    return read_config(trained / "run.yaml")


@pytest.fixture
def unused_gate(tmp_path, monkeypatch):
    """A gate for the workers of a cluster that is started later."""
    made = Gate(tmp_path / "gate")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.end()


@pytest.fixture
def gate(unused_gate):
    """A gate for the workers of a cluster that this process starts."""
    ray.init("local", num_cpus=2, **_NODE)
    yield unused_gate
    unused_gate.end()
    ray.shutdown()


@pytest.fixture
def two_nodes(unused_gate):
    """A cluster of two nodes with a CPU each, to which this process is connected, and the node that may be killed."""
    cluster = patient(Cluster)(initialize_head=True, head_node_args={"num_cpus": 1, **_NODE})
    node = patient(cluster.add_node)(num_cpus=1, **_NODE)
    cluster.wait_for_nodes(300)
    ray.init(cluster.address)
    yield cluster, node
    unused_gate.end()
    ray.shutdown()
    cluster.shutdown()


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


def test_a_node_is_killed(trained, config, two_nodes, unused_gate):
    """Each node has a worker; the node that is left gets both."""
    cluster, node = two_nodes
    folder, parents = trained / "node", []

    def kill() -> None:
        unused_gate.wait()
        parents.extend(map(parent, unused_gate.workers().values()))
        unused_gate.open()
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    report = train(config, folder, num_workers=2)
    killer.join()
    assert len(set(parents)) == len(parents) == 2, "both workers were on one node"
    assert report.steps == STEPS
    check(unused_gate, trained, folder)


def parent(process: int) -> int:
    """The process that started another one: of a worker, its node."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


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
    gate.wait_for_ends()  # Ray notices the driver's death in its own time
    report = train(config, folder, num_workers=2, max_failures=0)
    assert report.steps == STEPS
    check(gate, trained, folder)
