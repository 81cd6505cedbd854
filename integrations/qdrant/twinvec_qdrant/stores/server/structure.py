"""What a collection of a server is made of: its vectors, its index, and the payload fields with an index."""

from __future__ import annotations

import logging
from collections.abc import Collection

from qdrant_client import models

from twinvec.errors import StoreError, StoreUnavailableError
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import OWN_FIELDS
from twinvec_qdrant.stores.points import states_name
from twinvec_qdrant.stores.server.requests import Requests, is_local
from twinvec_qdrant.stores.server.values import client_quantization, client_states

MIGRATING_VERSION = (1, 18)
"""The first version of the server that can give a collection another vector."""

logger = logging.getLogger(__name__)


class Structure:
    """The structure of the collection that ``requests`` are about."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._client = requests.client
        self._local = is_local(requests.client)

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        """Make room for another dense vector, and for its token states."""
        config = models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=dim, distance=models.Distance.COSINE))
        self._create_vector(name, config)
        if states_dim is None:
            return
        states = client_states(states_dim)
        kept = models.DenseVectorConfig(
            size=states.size,
            distance=states.distance,
            multivector_config=states.multivector_config,
            datatype=models.VectorStorageDatatype.FLOAT16,
        )
        self._create_vector(states_name(name), models.DenseVectorNameConfig(dense=kept))
        if not self._local:
            placed = models.VectorParamsDiff(hnsw_config=states.hnsw_config, on_disk=states.on_disk)
            self._requests.call(self._client.update_collection, vectors_config={states_name(name): placed})

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector and its token states."""
        self._requests.call(self._client.delete_vector_name, name)
        self._requests.call(self._client.delete_vector_name, states_name(name))

    def pause_index(self) -> None:
        """Turn off the server's graph until ``build_index``."""
        if not self._local:
            self._requests.call(self._client.update_collection, hnsw_config=models.HnswConfigDiff(m=0))

    def build_index(self, settings: IndexSettings) -> bool:
        """Send the server these settings if it has others; it then builds the index while it serves searches."""
        if self._local:
            return False
        config = self._requests.call(self._client.get_collection).config
        wanted, graph = client_quantization(settings), config.hnsw_config
        vectors = config.params.vectors if isinstance(config.params.vectors, dict) else {}
        dense = {name: each for name, each in vectors.items() if each.multivector_config is None}
        if (graph.m, graph.ef_construct) == (settings.m, settings.ef_construct) and all(
            each.quantization_config == wanted for each in dense.values()
        ):
            return False
        copies = models.VectorParamsDiff(quantization_config=wanted or models.Disabled.DISABLED)
        self._requests.call(
            self._client.update_collection,
            hnsw_config=models.HnswConfigDiff(m=settings.m, ef_construct=settings.ef_construct),
            vectors_config=dict.fromkeys(dense, copies),
        )
        return True

    def index_fields(self, tenant_path: str | None, known: Collection[str], *, wait: bool = True) -> None:
        """Index the payload fields that conditions name, except the ``known`` ones, which have an index.

        Without ``wait``, the server builds the indexes of a large collection after the call.
        """
        if self._local:
            return
        for field in OWN_FIELDS:
            if field not in known:
                self._requests.call(
                    self._client.create_payload_index, field, models.PayloadSchemaType.KEYWORD, wait=wait
                )
        if tenant_path is not None and tenant_path not in known:
            tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self._requests.call(self._client.create_payload_index, tenant_path, tenants, wait=wait)

    def index_older(self, known: Collection[str]) -> None:
        """Index the fields of a collection that an older version has made; do without them if the server refuses."""
        if not set(OWN_FIELDS) <= set(known):
            try:
                self.index_fields(None, known, wait=False)
            except StoreUnavailableError:
                raise
            except StoreError as error:
                logger.warning("%s; changes fail if the server demands an index", error)

    def _create_vector(self, name: str, config: models.DenseVectorNameConfig) -> None:
        try:
            self._requests.call(self._client.create_vector_name, name, config)
        except StoreError as error:
            version = None if self._local else self._requests.version()
            if version is None or version >= MIGRATING_VERSION:
                raise
            raise StoreError(
                f"{self._requests.location}: the server has version {version[0]}.{version[1]}, and a migration needs "
                f"{MIGRATING_VERSION[0]}.{MIGRATING_VERSION[1]} or later: update the server"
            ) from error
