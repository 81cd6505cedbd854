"""A run of two workers on a Ray cluster, of which workers, the driver and a node are killed, ends as one process's."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import ray

import ray_clusters
from crash.cluster.training_runs import STEPS, Gate, assert_same_weights
from twinvec.training.run.config import TrainConfig, read_config
from twinvec_ray import train

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

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
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.end()


@pytest.fixture
def two_nodes(gate):
    """A cluster of two nodes with a CPU each, to which this process is connected, and the node that may be killed."""
    cluster = ray_clusters.start_cluster(1, 1, variables=gate.environment)
    (node,) = cluster.worker_nodes
    ray.init(cluster.address, log_to_driver=False)
    yield cluster, node
    gate.end()
    ray_clusters.end_cluster(cluster)


def test_workers_the_driver_and_a_node_are_killed(trained, config, two_nodes, gate):
    """One after another, each before the second checkpoint is complete, so that the next attempt begins at the first.

    A process that is killed afterwards leads the first three attempts; this process leads the others.
    """
    cluster, node = two_nodes
    folder, parents = trained / "two-workers", []
    script = _DRIVER.format(config=str(trained / "run.yaml"), folder=str(folder), address=cluster.address)
    driver = subprocess.Popen([sys.executable, "-c", script], env=ray_clusters.environment())
    try:
        for rank in (0, 1):
            gate.kill(rank, lambda: driver.poll() is None)
        gate.wait(lambda: driver.poll() is None)
    finally:
        driver.kill()
    assert driver.wait(60) == -signal.SIGKILL
    gate.wait_for_ends()  # Ray notices the driver's death in its own time

    def kill_node() -> None:
        gate.wait()
        parents.extend(map(parent, gate.workers().values()))
        gate.open()
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill_node, daemon=True)
    killer.start()
    report = train(config, folder, num_workers=2, max_failures=1)
    killer.join()
    assert len(set(parents)) == len(parents) == 2, "both workers were on one node"
    assert report.steps == STEPS
    assert not list(trained.glob(".*.ray"))  # Ray's own files
    (step, killed), *later = gate.checkpoints()
    assert step == 3
    assert [step for step, _ in later] == [6, STEPS]
    assert killed not in {process for _, process in later}
    assert_same_weights(folder, trained / "one")


def parent(process: int) -> int:
    """The process that started another one: of a worker, its node."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
