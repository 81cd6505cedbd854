"""A collection on a Qdrant server or cluster, or in any ``QdrantClient`` of the caller.

``requests`` sends, retries and words what fails. Writes wait until the server has applied them. Qdrant's collection
metadata (server 1.16 and later) holds the description.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from qdrant_client import AsyncQdrantClient, QdrantClient, models

from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import INDEXED_FIELDS, Backend, indexed_chunks
from twinvec_qdrant.stores.conditions import Conditions, IdIs, field_is
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
from twinvec_qdrant.stores.searches import Candidates, Search, fill_in, own_queries
from twinvec_qdrant.stores.server.awaited import AwaitedRequests
from twinvec_qdrant.stores.server.requests import Requests, is_local
from twinvec_qdrant.stores.server.searching import candidates_of, search_batch
from twinvec_qdrant.stores.server.streams import STREAM_POINTS, in_streams
from twinvec_qdrant.stores.server.text_indexes import TextIndexes
from twinvec_qdrant.stores.server.values import (
    client_filter,
    client_point,
    client_quantization,
    client_request,
    client_sparse,
    client_states,
    conditional_update,
)
from twinvec_qdrant.stores.steps import Ask, Steps, asked, run, run_awaiting, worked

T = TypeVar("T")


class ServerBackend(Backend):
    """One collection of a server; ``ServerStore`` makes it."""

    exclusive = False

    def __init__(
        self,
        client: QdrantClient,
        name: str,
        location: str,
        *,
        owned: bool,
        wait_seconds: float,
        async_client: AsyncQdrantClient | None = None,
    ) -> None:
        self.location = f"{location}, collection {name!r}"
        self.place: Hashable = (location if owned else id(client), name)
        self.writing = threading.RLock()
        self._client = client
        self._name = name
        self._owned = owned
        self._local = is_local(client)
        self._requests = Requests(client, name, self.location, wait_seconds)
        self._texts = TextIndexes(self._requests)
        self._shards = 1
        self._awaited: AwaitedRequests | None = None
        if async_client is not None or (owned and not self._local):
            kind = async_client or client.init_options
            self._awaited = AwaitedRequests(kind, name, self.location, wait_seconds)
        self.can_await = self._awaited is not None

    def read_metadata(self) -> dict[str, Any]:
        return self._metadata(self._requests.call(self._client.get_collection))

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        self._requests.call(self._client.update_collection, metadata=dict(changes))

    def upsert(self, points: Sequence[Point]) -> None:
        def send(batch: Sequence[Point]) -> None:
            self._requests.call(self._client.upsert, [client_point(point) for point in batch], wait=True)

        in_streams(send, in_batches(points, STREAM_POINTS), 1 if self._local else 2)

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        old = {record.id: revision for record, revision in zip(records, expected, strict=True)}
        for batch in in_batches([record for record in records if old[record.id] is None]):
            new = [client_point(record) for record in batch]
            insert = models.UpdateMode.INSERT_ONLY
            self._requests.call(self._client.upsert, new, wait=True, update_mode=insert)
        for batch in in_batches([record for record in records if old[record.id] is not None]):
            operations = [conditional_update(record, str(old[record.id])) for record in batch]
            self._requests.call(self._client.batch_update_points, operations, wait=True)

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        changes = [
            models.PointVectors(id=key, vector={SPARSE: client_sparse(vector)}) for key, vector in vectors.items()
        ]
        for page in pages(changes):
            self._requests.call(self._client.update_vectors, page, wait=True)

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        config = models.DenseVectorNameConfig(dense=models.DenseVectorConfig(size=dim, distance=models.Distance.COSINE))
        self._requests.call(self._client.create_vector_name, name, config)
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
        self._requests.call(self._client.create_vector_name, states_name(name), config)
        if not self._local:
            placed = models.VectorParamsDiff(hnsw_config=states.hnsw_config, on_disk=states.on_disk)
            self._requests.call(self._client.update_collection, vectors_config={states_name(name): placed})

    def drop_vector(self, name: str) -> None:
        self._requests.call(self._client.delete_vector_name, name)
        self._requests.call(self._client.delete_vector_name, states_name(name))

    def update_dense(self, points: Sequence[Point]) -> None:
        for batch in in_batches(points):
            changes = [models.PointVectors(id=point.id, vector=dense_vectors(point)) for point in batch]
            self._requests.call(self._client.update_vectors, changes, wait=True)

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        for page in pages(ids):
            selector: models.PointsSelector = models.PointIdsList(points=list(page))
            if revisions is not None:
                unchanged = (IdIs(tuple(page)), field_is("revision", *revisions))
                selector = models.FilterSelector(filter=client_filter(unchanged) or models.Filter())
            self._requests.call(self._client.delete, selector, wait=True)

    def flush(self) -> None:
        """Do nothing: every write waits until the server has applied and logged it."""

    def begin_load(self, tenant_path: str | None) -> None:
        """Index the payload fields that lack an index, and turn off the server's graph until ``build_index``."""
        if not self._local:
            self.index_fields(tenant_path)
            self._requests.call(self._client.update_collection, hnsw_config=models.HnswConfigDiff(m=0))

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Send the server these settings if it has others; it then builds the index while it serves searches."""
        del force  # the server decides when to build
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

    def indexed(self, chunks: int) -> int:
        info = self._requests.call(self._client.get_collection)
        vectors = info.config.params.vectors
        names = list(vectors) if isinstance(vectors, dict) else [DENSE]
        return indexed_chunks(self, info.indexed_vectors_count or 0, chunks, names)

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        found: dict[str, Point] = {}
        for page in pages(ids):
            records = self._requests.call(
                self._client.retrieve,
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
            records = self._requests.call(self._client.retrieve, page, with_payload=False, with_vectors=names)
            found |= stored_states(records, vector)
        return found

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        self._texts.check(conditions)
        offset = None
        while True:
            records, offset = self._requests.call(
                self._client.scroll,
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
        self._texts.check(conditions)
        return self._requests.call(self._client.count, count_filter=client_filter(conditions), exact=True).count

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        self._texts.check([condition for query in queries for condition in query.conditions])
        requests = [client_request(query, indexed=not self._local) for query in queries]
        answers = self._requests.call(self._client.query_batch_points, requests)
        return [scored(answer.points) for answer in answers]

    def candidates(self, searches: Sequence[Search], notice: str) -> Steps[Candidates]:
        """Return the candidates by one request; see ``searching``."""
        if self._local:
            return (yield from super().candidates(searches, notice))
        conditions = [condition for query in own_queries(searches) for condition in query.conditions]
        if self._texts.unknown(conditions):
            yield from worked(partial(self._texts.check, conditions))
        shards = self._shards
        answers = yield from asked("query_batch_points", search_batch(searches, notice, shards))
        candidates, complete = candidates_of(searches, [scored(answer.points) for answer in answers], shards)
        if not complete:
            yield from worked(partial(fill_in, searches, candidates, self.search))
        return candidates

    def points(self, ids: Sequence[str], vector: str | None = None) -> Steps[dict[str, Point]]:
        found: dict[str, Point] = {}
        for page in pages(ids):
            records = yield from asked("retrieve", page, with_payload=True, with_vectors=[vector] if vector else False)
            found.update((str(record.id), stored_point(record, vector)) for record in records)
        return found

    def described(self) -> Steps[dict[str, Any]]:
        return self._metadata((yield from asked("get_collection")))

    def run(self, steps: Steps[T]) -> T:
        def ask(step: Ask) -> Any:
            return self._requests.call(getattr(self._client, step.method), *step.arguments, **step.options)

        return run(steps, ask)

    async def run_awaiting(self, steps: Steps[T]) -> T:
        return self.run(steps) if self._awaited is None else await run_awaiting(steps, self._awaited.perform)

    def _metadata(self, info: models.CollectionInfo) -> dict[str, Any]:
        """Return the description, and note the number of shards."""
        self._shards = max(1, info.config.params.shard_number or 1)
        return dict(info.config.metadata or {})

    def close(self) -> None:
        """Close the connections, except those of the caller's clients."""
        if self._awaited is not None:
            self._awaited.close()
        if self._owned:
            self._client.close()

    def index_fields(self, tenant_path: str | None) -> None:
        """Index the payload fields that conditions name; an existing index stays."""
        for field in INDEXED_FIELDS:
            self._requests.call(self._client.create_payload_index, field, models.PayloadSchemaType.KEYWORD)
        if tenant_path is not None:
            tenants = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
            self._requests.call(self._client.create_payload_index, tenant_path, tenants)
