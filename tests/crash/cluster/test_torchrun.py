"""``torchrun`` with two processes, as the guide has it: killed and run again, it gives the weights of one process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crash.cluster.training_runs import STEPS, Gate, assert_same_weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

PROGRAMS = sysconfig.get_path("scripts")
COMMAND = "torchrun --nproc-per-node 2 --no-python twinvec train run.yaml -o two"


@pytest.fixture
def root(trained):
    """The same without a run of two processes."""
    shutil.rmtree(trained / "two", ignore_errors=True)
    return trained


@pytest.fixture
def gate(tmp_path):
    made = Gate(tmp_path / "gate")
    yield made
    made.end()


@contextmanager
def torchrun(root: Path, gate: Gate) -> Iterator[subprocess.Popen[str]]:
    """Run the command of the guide; end it with the block."""
    environment = {**os.environ, **gate.environment, "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
    pipe = subprocess.PIPE
    with subprocess.Popen(COMMAND.split(), cwd=root, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()  # it ends its workers


def test_a_run_that_is_killed_twice_goes_on_and_one_process_writes(root, gate):
    for rank in (0, 1):
        with torchrun(root, gate) as process:
            gate.kill(rank, lambda process=process: process.poll() is None)
            _, err = process.communicate()
        assert process.returncode != 0
        assert "SIGKILL" in err  # torchrun says what ended the worker
        assert ("continuing from two/checkpoints/checkpoint-3" in err) == (rank == 1)
        assert not (root / "two" / "twinvec.json").exists()
        ((step, first),) = gate.checkpoints()
        assert step == 3
    gate.open()
    with torchrun(root, gate) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "continuing from two/checkpoints/checkpoint-3" in err
    assert out.count(f"two: {STEPS} steps over 12 rows") == 1
    later = gate.checkpoints()[1:]
    assert [step for step, _ in later] == [6, STEPS]
    assert {process for _, process in later} == {gate.workers()[0]} != {first}
    assert gate.workers().keys() == {0, 1}
    written = gate.renamed(Path("two"))
    assert {each.rank for each in written} == {0}
    assert {"training.json", "model.safetensors", "twinvec.json"} <= {each.path.name for each in written}
    assert_same_weights(root / "two", root / "one")
