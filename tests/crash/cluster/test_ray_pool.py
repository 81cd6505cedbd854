"""A pool of actors on a cluster of two nodes, of which a node is killed with what it has computed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from crash.cluster import ray_ingests
from twinvec_ray.pool import DIED, Pool

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NEEDS = {"num_cpus": 1}
NUMBERS = 1_000_000  # of a result that lies in the memory of its node


@pytest.fixture
def cluster():
    with ray_ingests.two_nodes() as started:
        yield started


def test_a_result_on_a_killed_node_is_computed_again(cluster, tmp_path):
    """The second result is computed while nobody waits for it, so that it lies on the other node only."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    class Worker:
        def hello(self):
            return "here"

        def work(self, item):
            while item == 2 and not taken.exists():
                time.sleep(0.01)
            return np.full(NUMBERS, item)

    (node,) = cluster.worker_nodes
    given, taken = [], tmp_path / "taken"

    def submit(actor, item):
        given.append(actor.work.remote(item))
        return given[-1]

    there = NodeAffinitySchedulingStrategy(node.node_id, soft=True)
    actor = ray.remote(Worker).options(**NEEDS, scheduling_strategy=there)
    pool = Pool(actor.remote, 1, 1, NEEDS)
    results = pool.results(iter([1, 2]), submit)
    assert next(results)[0] == 1
    taken.touch()
    assert ray.wait(given, num_returns=2, timeout=300, fetch_local=False)[1] == []
    cluster.remove_node(node, allow_graceful=False)
    assert list(results) == [(2, DIED)]
    assert pool.ended == ["here"]
    ((item, result),) = pool.results(iter([2]), submit)
    assert (item, len(result)) == (2, NUMBERS)
    pool.close()
