"""On a cluster of two nodes, with blocks of vectors on both, the nearest neighbours are those of one big product."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from crash.cluster import ray_ingests
from twinvec_ray import nearest
from vector_blocks import answers, in_order, small_numbers, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COUNT, DIM, LIMIT = 4000, 96, 12
BLOCKS = 8  # of 192 KB: smaller ones would lie with this process


@pytest.fixture(scope="module")
def nodes():
    """The ids of two nodes, to whose cluster this process is connected."""
    with ray_ingests.two_nodes():
        yield [node["NodeID"] for node in ray.nodes() if node["Alive"]]


def test_vectors_on_two_nodes(nodes):
    assert len(nodes) == 2
    vectors, queries = small_numbers(COUNT, DIM, seed=1), small_numbers(150, DIM, seed=2)
    ids = np.random.default_rng(0).permutation(COUNT)

    @ray.remote
    def made(rows: slice) -> pa.Table:
        return table(vectors[rows], ids[rows].tolist())

    size = COUNT // BLOCKS
    blocks = []
    for block in range(BLOCKS):
        there = NodeAffinitySchedulingStrategy(nodes[block % 2], soft=False)
        blocks.append(made.options(scheduling_strategy=there).remote(slice(size * block, size * (block + 1))))
    given = ray.data.from_arrow_refs(blocks)
    asked = ray.data.from_arrow([table(queries[:70], list(range(70))), table(queries[70:], list(range(70, 150)))])
    expected = dict(enumerate(in_order(queries, vectors, ids.tolist(), LIMIT)))
    for rows in (300, size, 100_000):
        found = nearest(asked, given, LIMIT, measure="dot", block_rows=rows)
        assert answers(found.take_all()) == expected
