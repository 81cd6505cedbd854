"""A Ray cluster with two CPUs on this machine. The test files of this folder share it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import patient_ray  # noqa: F401

_started: list[Any] = []  # the cluster, while there is one


@pytest.fixture(scope="module")
def cluster():
    """Ray with two CPUs, and 100 MB for objects; the workers import what the tests import."""
    import ray

    import ray_clusters

    if not _started:
        _started.append(ray_clusters.start_cluster(2))
        ray.init(_started[0].address, log_to_driver=False)
    return ray


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """End the cluster when the next file does without it."""
    try:
        return (yield)
    finally:
        is_ours = nextitem is not None and nextitem.path.parent == item.path.parent
        needed = is_ours and (nextitem.path == item.path or "cluster" in nextitem.fixturenames)
        if _started and not needed:
            import ray_clusters

            ray_clusters.end_cluster(_started.pop())


@pytest.fixture(scope="module")
def exported_model(tiny_model, tmp_path_factory) -> Path:
    """A tiny model with its graph: workers, which load it in processes of their own, need not import torch."""
    from twinvec.export.model import export_model

    return export_model(tiny_model("bert"), tmp_path_factory.mktemp("exported") / "model").folder
