"""Clusters of Ray on this machine, without the processes of Ray that no test needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from patient_ray import patient

SECONDS = 300.0
_LEAN = Path(__file__).with_name("lean")
_NODE = {"include_dashboard": False, "object_store_memory": 100 * 1024 * 1024}
_HEAD = {"include_log_monitor": False, "no_monitor": True}

# a node that is killed refuses the checks and is noticed soon; one that is slow has as long as before for each of them
os.environ.setdefault("RAY_health_check_period_ms", "500")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # other tests that run at the same time would starve the workers


def environment(*first: Path) -> dict[str, str]:
    """Return an environment with the import path of this process, after the folders ``first``."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, first), str(_LEAN), *filter(None, sys.path)])}


def start_cluster(*cpus: int, variables: Mapping[str, str] | None = None) -> Cluster:
    """Start a cluster with a node for each number of CPUs; ``variables`` are added to the workers' environment."""
    started = Cluster()
    for row, each in enumerate(cpus):
        add_node(started, each, variables, **({} if row else _HEAD))
    return started


def add_node(cluster: Cluster, cpus: int, variables: Mapping[str, str] | None = None, **options: Any) -> Any:
    """Add a node to a cluster, and wait until it is there."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environment(), **(variables or {})}.items():
            patch.setenv(name, value)
        node = patient(cluster.add_node)(num_cpus=cpus, **_NODE, **options)
        cluster.wait_for_nodes(SECONDS)
    return node


def end_cluster(cluster: Cluster) -> None:
    """Disconnect this process, and end a cluster."""
    ray.shutdown()
    cluster.shutdown()
