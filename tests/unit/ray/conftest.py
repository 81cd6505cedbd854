"""A cluster of two CPUs on this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import patient_ray  # noqa: F401


@pytest.fixture(scope="module")
def cluster():
    """Ray with two CPUs, and 100 MB for objects; the workers import what the tests import."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
        ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 1024 * 1024)
        try:
            yield ray
        finally:
            ray.shutdown()


@pytest.fixture(scope="module")
def exported_model(tiny_model, tmp_path_factory) -> Path:
    """A tiny model with its graph: workers, which load it in processes of their own, need not import torch."""
    from twinvec.export.model import export_model

    return export_model(tiny_model("bert"), tmp_path_factory.mktemp("exported") / "model").folder
