"""The nearest of more vectors than fit into the memory of a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import ray

import ray_clusters
from twinvec_ray import nearest
from vector_blocks import table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


@pytest.fixture
def own_cluster():
    """A cluster of two CPUs, and 100 MB for objects, of which nobody else has any."""
    started = ray_clusters.start_cluster(2)
    ray.init(started.address, log_to_driver=False)
    yield started
    ray_clusters.end_cluster(started)


def memory():
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_more_vectors_than_the_object_store_holds(own_cluster):
    """300 MB pass through a store of 100 MB: none of it is written to disk, or kept by this process."""
    from ray._private.internal_api import get_memory_info_reply, get_state_from_address

    def random_vectors(batch):
        numbers = batch.column("id").to_numpy()
        return table(np.random.default_rng(numbers[0]).normal(size=(len(numbers), 384)), numbers)

    def searched(count):
        given = ray.data.range(count, override_num_blocks=count // 2000)
        vectors = given.map_batches(random_vectors, batch_format="pyarrow", batch_size=2000)
        return nearest(asked, vectors, 3, block_rows=2000).take_all()

    asked = ray.data.from_arrow(table(np.random.default_rng(0).normal(size=(300, 384)).astype(np.float32)))
    assert len(searched(2000)) == 300
    before = memory()
    found = searched(200_000)
    grown = memory() - before
    state = get_memory_info_reply(get_state_from_address(own_cluster.gcs_address))
    assert state.store_stats.spilled_bytes_total == 0
    assert grown < 75e6
    assert len(found) == 300
    for row in found:  # the first vectors are the queries
        assert row["ids"][0] == int(row["query"][1:])
        assert row["scores"][0] == pytest.approx(1, abs=1e-6)
