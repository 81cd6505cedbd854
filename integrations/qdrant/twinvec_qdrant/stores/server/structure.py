"""The structure of a server's collection: its vectors, their index, and its payload indexes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tenacity
from qdrant_client import models

from twinvec.errors import ConfigurationError, StoreError, StoreUnavailableError
from twinvec_qdrant.settings import ClusterSettings, IndexSettings, Quantization
from twinvec_qdrant.stores.base import OWN_FIELDS, indexed_chunks
from twinvec_qdrant.stores.points import DENSE, SPARSE, UNNAMED, states_name
from twinvec_qdrant.stores.server import cluster
from twinvec_qdrant.stores.server.errors import UnknownVectorError
from twinvec_qdrant.stores.server.limits.known import KnownCollection
from twinvec_qdrant.stores.server.values import client_quantization, client_states

LEAST_VERSION = (1, 17)
"""Oldest version of the server that twinvec works with: an older one ignores ``update_mode`` and overwrites records."""

MIGRATING_VERSION = (1, 18)
"""First version of the server that can add a named vector to a collection."""

TURBO_VERSION = (1, 18)
"""First version of the server with "turbo" quantisation."""

logger = logging.getLogger(__name__)

_INDEXING_THRESHOLD = 10_000  # a server's default, in kB
_BYTES = {models.Datatype.FLOAT16: 2, models.Datatype.UINT8: 1}  # of each number; 4 for all other types

_QUANTIZATIONS: Mapping[type, Quantization] = {
    models.ScalarQuantization: "int8",
    models.TurboQuantization: "turbo",
    models.BinaryQuantization: "binary",
}


@dataclass(frozen=True, slots=True)
class DenseShape:
    """A named dense vector: its size, its distance ("Cosine", ...), and whether each point has a list of vectors."""

    size: int
    distance: str
    is_multivector: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """The structure of any Qdrant collection.

    Attributes:
        dense: The dense vectors by name.
        sparse: Names of the sparse vectors.
        metadata: The metadata of the collection.
        by_shard_key: Whether writers choose the shards.
        quantizations: The quantisation of each dense vector that has one.
        edges: ``m`` and ``ef_construct`` of the graph.
    """

    dense: Mapping[str, DenseShape]
    sparse: frozenset[str]
    metadata: Mapping[str, Any]
    by_shard_key: bool
    quantizations: Mapping[str, Quantization]
    edges: tuple[int, int]

    def index(self, vector: str) -> IndexSettings:
        """Return the index settings of a vector; default edges if ``IndexSettings`` does not permit the server's."""
        copies = self.quantizations.get(vector, "none")
        try:
            return IndexSettings(copies, *self.edges)
        except ConfigurationError:  # settings made elsewhere, such as m=0: no graph while points are loaded
            return IndexSettings(copies)


class Structure(KnownCollection):
    """The methods of a server's backend that read and change the structure of the collection."""

    _prepared = False  # whether twinvec's own payload fields have indexes
    _keyed: cluster.TenantShards | None = None  # the tenants whose shard keys have been made

    def shape(self) -> Shape:
        """Ask the server for the structure of the collection."""
        config = self._info().config
        dense = named_vectors(config.params)
        copies = {name: _QUANTIZATIONS.get(type(each.quantization_config)) for name, each in dense.items()}
        return Shape(
            {
                name: DenseShape(each.size, each.distance.value, each.multivector_config is not None)
                for name, each in dense.items()
            },
            frozenset(config.params.sparse_vectors or {}),
            dict(config.metadata or {}),
            config.params.sharding_method is models.ShardingMethod.CUSTOM,
            {name: kind for name, kind in copies.items() if kind is not None},
            (config.hnsw_config.m, config.hnsw_config.ef_construct),
        )

    def cluster(self) -> ClusterSettings | None:
        return None if self._local else cluster.settings_of(self._info())

    def change_cluster(self, wanted: ClusterSettings) -> None:
        if self._local:
            raise ConfigurationError(f"{self.location}: cluster settings need a Qdrant server")
        cluster.change(self.requests, self._info(), wanted)
        self.read_consistently(wanted.read_consistency)

    def read_metadata(self) -> dict[str, Any]:
        return dict(self._info().config.metadata or {})

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        self.requests.call(self._client.update_collection, metadata=dict(changes))

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        if states_dim is not None:
            self._add_states(name, states_dim)
        config = models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=dim, distance=models.Distance.COSINE))
        self._create_vector(name, config)
        self._wait_for_vector(name, [1.0] * dim)

    def _add_states(self, name: str, states_dim: int) -> None:
        """Add the token states that belong to the dense vector ``name``; each state has ``states_dim`` numbers."""
        states = client_states(states_dim)
        kept = models.DenseVectorConfig(
            size=states.size,
            distance=states.distance,
            multivector_config=states.multivector_config,
            datatype=models.VectorStorageDatatype.FLOAT16,
        )
        self._create_vector(states_name(name), models.DenseVectorNameConfig(dense=kept))
        if not self._local and not _has_no_graph(named_vectors(self._info().config.params)[states_name(name)]):
            placed = models.VectorParamsDiff(hnsw_config=states.hnsw_config, on_disk=states.on_disk)
            self.requests.call(self._client.update_collection, vectors_config={states_name(name): placed})

    def _wait_for_vector(self, name: str, query: list[float] | models.SparseVector) -> None:
        """Wait until searches can name a new vector, and so all vectors that were made before it.

        A server answers before it has made room for a vector in every segment; a segment that it is optimizing gets the
        vector later. Until then, the server refuses searches and reads that name the vector (seen with Qdrant 1.18.3).
        """
        if self._local:
            return
        search = models.QueryRequest(query=query, using=name, limit=1, with_payload=False)
        tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(UnknownVectorError),
            wait=tenacity.wait_exponential(multiplier=0.02, max=1.0),
            stop=tenacity.stop_before_delay(self.requests.wait_seconds),
            reraise=True,
        )(lambda: self.run(self._within(lambda limits: self._read("query_batch_points", limits, 1, [search]))))

    def add_sparse(self) -> None:
        """Add the sparse vector of BM25 to the collection; do nothing if it exists."""
        config = models.SparseVectorConfig(modifier=models.Modifier.IDF)
        self._create_vector(SPARSE, models.SparseVectorNameConfig(sparse=config), "adding sparse vectors")
        self._wait_for_vector(SPARSE, models.SparseVector(indices=[0], values=[1.0]))

    def drop_vector(self, name: str) -> None:
        if name == UNNAMED:  # requests cannot name this vector
            logger.warning("%s: a server cannot remove vectors without a name; they stay", self.location)
            return
        self.requests.call(self._client.delete_vector_name, name)
        self.requests.call(self._client.delete_vector_name, states_name(name))

    def begin_load(self, tenant_path: str | None) -> None:
        """Index the payload fields that lack an index, and turn off the server's graph until ``build_index``.

        If the server forbids exact search, the graph stays, because the server would refuse searches without a graph.
        """
        self.index_fields(tenant_path)
        if not self._local and self.run(self._permitted()).exact:
            self.requests.call(self._client.update_collection, hnsw_config=models.HnswConfigDiff(m=0))

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Send the settings to the server if its settings differ; the server then builds the index while it serves."""
        del force  # the server decides when to build
        if self._local:
            return False
        config = self._info().config
        wanted, graph = client_quantization(settings), config.hnsw_config
        dense = {name: each for name, each in named_vectors(config.params).items() if _is_ours(each)}
        if (graph.m, graph.ef_construct) == (settings.m, settings.ef_construct) and all(
            each.quantization_config == wanted for each in dense.values()
        ):
            return False
        self.check_quantization(settings)
        copies = models.VectorParamsDiff(quantization_config=wanted or models.Disabled.DISABLED)
        self.requests.call(
            self._client.update_collection,
            hnsw_config=models.HnswConfigDiff(m=settings.m, ef_construct=settings.ef_construct),
            vectors_config=dict.fromkeys(dense, copies),
        )
        return True

    def check_version(self) -> None:
        """Raise ``StoreError`` if the server says that its version is below ``LEAST_VERSION``."""
        self.requests.check_version(LEAST_VERSION, "twinvec")

    def check_quantization(self, settings: IndexSettings) -> None:
        """Raise ``StoreError`` if the server says that its version is too old for the quantisation."""
        if settings.quantization == "turbo":
            self.requests.check_version(TURBO_VERSION, '"turbo" quantisation')

    def indexed(self, chunks: int) -> int:
        info = self._info()
        names, vectors = list(named_vectors(info.config.params)) or [DENSE], info.indexed_vectors_count or 0
        if vectors - chunks < _least_indexed(info.config):  # the server counts sparse vectors that are deleted, too
            return 0
        return indexed_chunks(self, vectors, chunks, names)

    def index_fields(self, tenant_path: str | None) -> None:
        """Index the payload fields that twinvec's conditions test; existing indexes stay."""
        if self._local:
            return
        self._index(tenant_path, wait=True)
        self._prepared = True

    def _prepare(self) -> None:
        """Before the first write, make the shard keys and the indexes that the collection lacks.

        If the server refuses, log a warning. Raise ``StoreError`` if the server is too old.
        """
        if self._local or (self._prepared and self._keyed == self._tenants):
            return
        self.check_version()
        try:
            self._index(None, wait=False)
        except StoreUnavailableError:
            raise
        except StoreError as error:
            logger.warning("%s; later writes fail if the server demands this index", error)
        self._prepared = True

    def _index(self, tenant_path: str | None, *, wait: bool) -> None:
        """Make the missing shard keys, and the missing indexes of twinvec's own payload fields.

        Without ``wait``, the server may build the indexes after the call.
        """
        known = self._info().payload_schema or {}
        if self._tenants is not None:
            cluster.make_keys(self.requests, self._tenants)
            self._keyed = self._tenants
        for field in OWN_FIELDS:
            if field not in known:
                kind = models.PayloadSchemaType.KEYWORD
                self.requests.call(self._client.create_payload_index, field, kind, wait=wait)
        if tenant_path is not None and tenant_path not in known:
            tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self.requests.call(self._client.create_payload_index, tenant_path, tenants, wait=wait)

    def _create_vector(
        self, name: str, config: models.DenseVectorNameConfig | models.SparseVectorNameConfig, what: str = "a migration"
    ) -> None:
        """Add a named vector to the collection, if it is missing; ``what`` names the purpose in the error.

        The request is not repeated for an existing vector, because the server would optimize all points again.
        """
        params = self._info().config.params
        if name in named_vectors(params) or name in (params.sparse_vectors or {}):
            return
        try:
            self.requests.call(self._client.create_vector_name, name, config)
        except StoreError:
            self.requests.check_version(MIGRATING_VERSION, what)
            raise


def _has_no_graph(vector: models.VectorParams) -> bool:
    return vector.hnsw_config is not None and vector.hnsw_config.m == 0


def named_vectors(params: models.CollectionParams) -> Mapping[str, models.VectorParams]:
    """Return the settings of all dense vectors by name."""
    vectors = params.vectors
    if vectors is None:
        return {}
    return vectors if isinstance(vectors, dict) else {UNNAMED: vectors}


def _least_indexed(config: models.CollectionConfig) -> int:
    """Return the smallest number of dense vectors that an index of the server has; 0 for lists of vectors.

    The server indexes a segment if its vectors need ``indexing_threshold`` kB. The threshold also holds for sparse
    vectors, which are smaller unless the texts are very long.
    """
    dense = named_vectors(config.params).values()
    if any(each.multivector_config is not None for each in dense):
        return 0
    threshold = config.optimizer_config.indexing_threshold or _INDEXING_THRESHOLD
    largest = max((each.size * (_BYTES.get(each.datatype, 4) if each.datatype else 4) for each in dense), default=1)
    return threshold * 1024 // largest


def _is_ours(vector: models.VectorParams) -> bool:
    """Return whether ``IndexSettings`` applies: to a single dense vector, without product quantisation."""
    return vector.multivector_config is None and not isinstance(vector.quantization_config, models.ProductQuantization)
