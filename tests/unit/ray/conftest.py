"""A cluster of two CPUs on this machine."""

from __future__ import annotations

import os
import sys

import pytest


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
