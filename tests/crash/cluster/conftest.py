"""A server for ingests, and a finished training run to compare others with."""

from __future__ import annotations

import pytest

import patient_ray  # noqa: F401
from crash.cluster.training_runs import prepare
from stand_in import StandIn


@pytest.fixture(scope="module")
def server():
    """The stand-in of a Qdrant server."""
    with StandIn().running() as running:
        yield running


@pytest.fixture(scope="session")
def trained(tiny_model, tmp_path_factory):
    """A folder with a configuration, and the folder ``one`` that one process has trained by it."""
    from twinvec.training.run.config import read_config
    from twinvec.training.run.train import train

    root = tmp_path_factory.mktemp("run")
    train(read_config(prepare(root, tiny_model("bert"))), root / "one")
    return root
