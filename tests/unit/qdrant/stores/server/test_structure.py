"""The smallest index of vectors that a server makes."""

from __future__ import annotations

import pytest
from qdrant_client import QdrantClient, models

from twinvec_qdrant.stores.server.structure import _least_indexed


def vectors(**options) -> models.VectorParams:
    return models.VectorParams(size=384, distance=models.Distance.COSINE, **options)


LISTS = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)


@pytest.mark.parametrize(
    ("dense", "least"),
    [
        ({"dense": vectors()}, 6_666),  # Qdrant 1.18.3 indexes 6,667 of these vectors
        (vectors(datatype=models.Datatype.FLOAT16), 13_333),
        ({"dense": vectors(datatype=models.Datatype.UINT8), "other": vectors()}, 6_666),
        ({"dense": vectors(), "dense-states": vectors(multivector_config=LISTS)}, 0),
    ],
)
def test_the_least_index_needs_the_threshold_of_the_server(dense, least):
    client = QdrantClient(":memory:")
    client.create_collection("notes", vectors_config=dense)
    config = client.get_collection("notes").config
    config.optimizer_config.indexing_threshold = 10_000
    assert _least_indexed(config) == least
