"""A collection on a Qdrant server or cluster, or in any ``QdrantClient`` of the caller.

A request is repeated, after growing and jittered pauses, while the server cannot be reached, times out or answers 429
or 5xx; any other failure is raised at once (``retrying``). Writes wait until the server has applied them. Qdrant's
collection metadata (server 1.16 and later) holds the collection's description.
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import tenacity
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.local.qdrant_local import QdrantLocal

from twinvec.errors import StoreError, StoreUnavailableError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import INDEXED_FIELDS, Backend, NewCollection, indexed_chunks
from twinvec_qdrant.stores.conditions import Conditions, FieldIs, IdIs
from twinvec_qdrant.stores.points import (
    DENSE,
    PAGE,
    SPARSE,
    STATES_PAGE,
    Point,
    Query,
    Scored,
    States,
    dense_vectors,
    in_batches,
    pages,
    payload_selector,
    scored,
    states_name,
    stored_point,
    stored_states,
)
from twinvec_qdrant.stores.server.retrying import BUSY, pause_hint, reason, retrying, unsendable
from twinvec_qdrant.stores.server.values import (
    client_filter,
    client_point,
    client_quantization,
    client_request,
    client_sparse,
    client_states,
    conditional_update,
)

T = TypeVar("T")

logger = logging.getLogger(__name__)

_LOCAL_MODE = threading.RLock()
"""Lock of the client's local mode, which fails if one thread searches while another writes."""


class ServerBackend(Backend):
    """One collection of a server; ``ServerStore`` makes it."""

    exclusive = False

    def __init__(self, client: QdrantClient, name: str, location: str, *, owned: bool, wait_seconds: float) -> None:
        self.location = f"{location}, collection {name!r}"
        self.place: Hashable = (location if owned else id(client), name)
        self.writing = threading.RLock()
        self._client = client
        self._name = name
        self._owned = owned
        self._local = isinstance(getattr(client, "_client", None), QdrantLocal)
        self._turn = _LOCAL_MODE if self._local else nullcontext()
        self._retry = retrying(wait_seconds, self._announce)

    def exists(self) -> bool:
        """Return whether the server has the collection."""
        return self._call(self._client.collection_exists, self._name)

    def siblings(self) -> list[str]:
        """Return the names of the server's collections."""
        return sorted(each.name for each in self._call(self._client.get_collections).collections)

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """Return the description of each of the server's collections, by name."""
        return {name: self._metadata(name) for name in self.siblings()}

    def drop(self) -> None:
        """Remove the collection."""
        self._call(self._client.delete_collection, self._name)

    def create(self, new: NewCollection) -> None:
        """Create the collection, unless another process creates it at the same moment."""
        dense = models.VectorParams(
            size=new.dim, distance=models.Distance.COSINE, quantization_config=client_quantization(new.index)
        )
        states = {} if new.states_dim is None else {states_name(DENSE): client_states(new.states_dim)}
        try:
            self._call(
                self._client.create_collection,
                self._name,
                vectors_config={DENSE: dense, **states},
                sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                metadata=dict(new.metadata),
                hnsw_config=models.HnswConfigDiff(m=new.index.m, ef_construct=new.index.ef_construct),
            )
        except StoreError:
            if not self.exists():
                raise
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Payload indexes have no effect in the local Qdrant")
            self._index_fields(new.tenant_path)

    def read_metadata(self) -> dict[str, Any]:
        return self._metadata(self._name)

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        self._call(self._client.update_collection, self._name, metadata=dict(changes))

    def upsert(self, points: Sequence[Point]) -> None:
        for batch in in_batches(points):
            self._call(self._client.upsert, self._name, [client_point(point) for point in batch], wait=True)

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        old = {record.id: revision for record, revision in zip(records, expected, strict=True)}
        for batch in in_batches([record for record in records if old[record.id] is None]):
            new = [client_point(record) for record in batch]
            insert = models.UpdateMode.INSERT_ONLY
            self._call(self._client.upsert, self._name, new, wait=True, update_mode=insert)
        for batch in in_batches([record for record in records if old[record.id] is not None]):
            operations = [conditional_update(record, str(old[record.id])) for record in batch]
            self._call(self._client.batch_update_points, self._name, operations, wait=True)

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        changes = [
            models.PointVectors(id=key, vector={SPARSE: client_sparse(vector)}) for key, vector in vectors.items()
        ]
        for page in pages(changes):
            self._call(self._client.update_vectors, self._name, page, wait=True)

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        config = models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=dim, distance=models.Distance.COSINE))
        self._call(self._client.create_vector_name, self._name, name, config)
        if states_dim is None:
            return
        states = client_states(states_dim)
        kept = models.DenseVectorConfig(
            size=states.size,
            distance=states.distance,
            multivector_config=states.multivector_config,
            datatype=models.VectorStorageDatatype.FLOAT16,
        )
        config = models.DenseVectorNameConfig(dense=kept)
        self._call(self._client.create_vector_name, self._name, states_name(name), config)
        if not self._local:
            placed = models.VectorParamsDiff(hnsw_config=states.hnsw_config, on_disk=states.on_disk)
            self._call(self._client.update_collection, self._name, vectors_config={states_name(name): placed})

    def drop_vector(self, name: str) -> None:
        self._call(self._client.delete_vector_name, self._name, name)
        self._call(self._client.delete_vector_name, self._name, states_name(name))

    def update_dense(self, points: Sequence[Point]) -> None:
        for batch in in_batches(points):
            changes = [models.PointVectors(id=point.id, vector=dense_vectors(point)) for point in batch]
            self._call(self._client.update_vectors, self._name, changes, wait=True)

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        for page in pages(ids):
            selector: models.PointsSelector = models.PointIdsList(points=list(page))
            if revisions is not None:
                unchanged = (IdIs(tuple(page)), FieldIs(("revision",), tuple(revisions)))
                selector = models.FilterSelector(filter=client_filter(unchanged) or models.Filter())
            self._call(self._client.delete, self._name, selector, wait=True)

    def flush(self) -> None:
        """Do nothing: every write has waited until the server applied and logged it."""

    def begin_load(self, tenant_path: str | None) -> None:
        """Let the server build no graph until ``build_index``, and index payload fields.

        The process that created the collection may have died before it indexed them. An existing index stays.
        """
        if not self._local:
            self._index_fields(tenant_path)
            self._call(self._client.update_collection, self._name, hnsw_config=models.HnswConfigDiff(m=0))

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Give the server these settings if it has others; it then builds the index while it serves searches."""
        del force  # the server decides when to build
        if self._local:
            return False
        config = self._call(self._client.get_collection, self._name).config
        wanted, graph = client_quantization(settings), config.hnsw_config
        vectors = config.params.vectors if isinstance(config.params.vectors, dict) else {}
        dense = {name: each for name, each in vectors.items() if each.multivector_config is None}
        if (graph.m, graph.ef_construct) == (settings.m, settings.ef_construct) and all(
            each.quantization_config == wanted for each in dense.values()
        ):
            return False
        copies = models.VectorParamsDiff(quantization_config=wanted or models.Disabled.DISABLED)
        self._call(
            self._client.update_collection,
            self._name,
            hnsw_config=models.HnswConfigDiff(m=settings.m, ef_construct=settings.ef_construct),
            vectors_config=dict.fromkeys(dense, copies),
        )
        return True

    def indexed(self, chunks: int) -> int:
        info = self._call(self._client.get_collection, self._name)
        vectors = info.config.params.vectors
        names = list(vectors) if isinstance(vectors, dict) else [DENSE]
        return indexed_chunks(self, info.indexed_vectors_count or 0, chunks, names)

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        found: dict[str, Point] = {}
        for page in pages(ids):
            records = self._call(
                self._client.retrieve,
                self._name,
                page,
                with_payload=payload_selector(fields),
                with_vectors=[vector] if vector else False,
            )
            found.update((str(record.id), stored_point(record, vector)) for record in records)
        return found

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        found: dict[str, States] = {}
        names = [states_name(vector)]
        for page in pages(ids, STATES_PAGE):
            records = self._call(self._client.retrieve, self._name, page, with_payload=False, with_vectors=names)
            found |= stored_states(records, vector)
        return found

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        offset = None
        while True:
            records, offset = self._call(
                self._client.scroll,
                self._name,
                scroll_filter=client_filter(conditions),
                limit=PAGE,
                offset=offset,
                with_payload=payload_selector(fields),
                with_vectors=False,
            )
            yield from map(stored_point, records)
            if offset is None:
                return

    def count(self, conditions: Conditions) -> int:
        return self._call(self._client.count, self._name, count_filter=client_filter(conditions), exact=True).count

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        requests = [client_request(query, indexed=not self._local) for query in queries]
        answers = self._call(self._client.query_batch_points, self._name, requests)
        return [scored(answer.points) for answer in answers]

    def close(self) -> None:
        """Close the connection, unless the client is the caller's."""
        if self._owned:
            self._client.close()

    def _metadata(self, name: str) -> dict[str, Any]:
        return dict(self._call(self._client.get_collection, name).config.metadata or {})

    def _announce(self, state: tenacity.RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            logger.warning("%s: %s; trying again", self.location, reason(state.outcome.exception()))

    def _index_fields(self, tenant_path: str | None) -> None:
        for field in INDEXED_FIELDS:
            self._call(self._client.create_payload_index, self._name, field, models.PayloadSchemaType.KEYWORD)
        if tenant_path is not None:
            tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self._call(self._client.create_payload_index, self._name, tenant_path, tenants)

    def _call(self, method: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a method of the client, repeat it as ``retrying`` says, and raise its errors as a ``StoreError``."""
        try:
            with self._turn:
                return self._retry.copy()(method, *args, **options)
        except ResponseHandlingException as error:
            cause = None if unsendable(error) else error  # an unsendable header may be the API key
            raise StoreUnavailableError(f"{self.location}: no answer: {reason(error)}") from cause
        except QdrantException as error:
            raise StoreUnavailableError(f"{self.location}: too busy: {reason(error)}{pause_hint(error)}") from error
        except UnexpectedResponse as error:
            kind = StoreUnavailableError if error.status_code in BUSY else StoreError
            raise kind(f"{self.location}: refused: {error}{pause_hint(error)}") from error
        except Exception as error:  # the client's local mode raises exceptions of many kinds
            raise StoreError(f"{self.location}: {method.__name__} failed: {error}") from error
