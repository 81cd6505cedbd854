"""A collection on a Qdrant server or cluster, or in any ``QdrantClient`` of the caller.

``requests`` sends, retries and words what fails, and ``limits`` says what one request may hold; if the server refuses a
request by a limit, the limits are read again. Writes wait until the server has applied them. Qdrant's collection
metadata (server 1.16 and later) holds the description.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeVar

from qdrant_client import AsyncQdrantClient, QdrantClient, models

from twinvec.errors import ConfigurationError, StoreLimitError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import ClusterSettings, IndexSettings, ReadConsistency
from twinvec_qdrant.stores.base import Backend, FieldIndexType, indexed_chunks
from twinvec_qdrant.stores.conditions import Conditions, IdIs, field_is
from twinvec_qdrant.stores.points import (
    BATCH_POINTS,
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
from twinvec_qdrant.stores.searches import Candidates, Search, fill_in
from twinvec_qdrant.stores.server import cluster
from twinvec_qdrant.stores.server.awaited import AwaitedRequests
from twinvec_qdrant.stores.server.field_indexes import FieldIndexes
from twinvec_qdrant.stores.server.limits.narrowing import conditions_of, narrowed
from twinvec_qdrant.stores.server.limits.permitted import Limits, limits_of
from twinvec_qdrant.stores.server.limits.searches import batches, cost, fits, merged, needs_exact, requests_for
from twinvec_qdrant.stores.server.requests import Requests, is_local
from twinvec_qdrant.stores.server.searching import candidates_of, search_batch, sendable
from twinvec_qdrant.stores.server.streams import STREAM_POINTS, in_streams
from twinvec_qdrant.stores.server.structure import Structure
from twinvec_qdrant.stores.server.values import client_filter, client_point, client_sparse, conditional_update
from twinvec_qdrant.stores.steps import Ask, Steps, asked, run, run_awaiting, worked

T = TypeVar("T")

_COUNTED = 10_000
"""Largest number of points in one request that returns ids only."""


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
        self.location = f"{location}, collection {name!r}" if name else location
        self.place: Hashable = (location if owned else id(client), name)
        self.writing = threading.RLock()
        self._client = client
        self._name = name
        self._owned = owned
        self._local = is_local(client)
        self._requests = Requests(client, name, self.location, wait_seconds)
        self._structure = Structure(self._requests)
        self._fields = FieldIndexes(self._requests)
        self._limits: Limits | None = None
        self._asked: ReadConsistency | None = None
        self._recorded: ReadConsistency | None = None
        self._unready = True  # own fields may lack an index
        self._shards = 1
        self._awaited: AwaitedRequests | None = None
        if async_client is not None or (owned and not self._local):
            kind = async_client or client.init_options
            self._awaited = AwaitedRequests(kind, name, self.location, wait_seconds)
        self.can_await = self._awaited is not None

    def cluster(self) -> ClusterSettings | None:
        return None if self._local else cluster.settings_of(self._info())

    def change_cluster(self, wanted: ClusterSettings) -> None:
        if self._local:
            raise ConfigurationError(f"{self.location}: settings of a cluster are for a server")
        cluster.change(self._requests, self._info(), wanted)
        self.read_consistently(wanted.read_consistency)

    def read_consistently(self, consistency: ReadConsistency | None) -> None:
        self._asked = consistency if consistency is not None else self._asked

    def read_metadata(self) -> dict[str, Any]:
        return dict(self._info().config.metadata or {})

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        self._requests.call(self._client.update_collection, metadata=dict(changes))

    def upsert(self, points: Sequence[Point]) -> None:
        self._prepare()

        def upsert(limits: Limits) -> None:
            def send(batch: Sequence[Point]) -> None:
                self._write(limits, self._client.upsert, [client_point(point) for point in batch])

            alone = self._local or limits.writes is not None  # two streams would wait for the same budget
            in_streams(send, in_batches(points, limits.written(STREAM_POINTS)), 1 if alone else 2)

        self._within(upsert)

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        self._prepare()
        old = {record.id: revision for record, revision in zip(records, expected, strict=True)}
        added = [record for record in records if old[record.id] is None]
        replaced = [record for record in records if old[record.id] is not None]

        def commit(limits: Limits) -> None:
            for batch in in_batches(added, limits.written(BATCH_POINTS)):
                new = [client_point(record) for record in batch]
                self._write(limits, self._client.upsert, new, update_mode=models.UpdateMode.INSERT_ONLY)
            for batch in in_batches(replaced, limits.written(BATCH_POINTS)):
                operations = [conditional_update(record, str(old[record.id])) for record in batch]
                self._write(limits, self._client.batch_update_points, operations)

        self._within(commit)

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        changes = [
            models.PointVectors(id=key, vector={SPARSE: client_sparse(vector)}) for key, vector in vectors.items()
        ]

        def update(limits: Limits) -> None:
            for page in pages(changes, limits.written(PAGE)):
                self._write(limits, self._client.update_vectors, page)

        self._within(update)

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        self._structure.add_vector(name, dim, states_dim)

    def drop_vector(self, name: str) -> None:
        self._structure.drop_vector(name)

    def update_dense(self, points: Sequence[Point]) -> None:
        def update(limits: Limits) -> None:
            for batch in in_batches(points, limits.written(BATCH_POINTS)):
                changes = [models.PointVectors(id=point.id, vector=dense_vectors(point)) for point in batch]
                self._write(limits, self._client.update_vectors, changes)

        self._within(update)

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        self._prepare()

        def delete(limits: Limits) -> None:
            most = limits.named(limits.removed(PAGE))
            for page in pages(ids, most):
                for selector in _selectors(page, revisions, limits):
                    self._requests.call(
                        self._client.delete, selector, wait=True, refill_seconds=limits.refill(writes=len(page))
                    )

        self._within(delete)

    def flush(self) -> None:
        """Do nothing: every write waits until the server has applied and logged it."""

    def field_indexes(self) -> Mapping[str, str]:
        return self._fields.read()

    def index_field(self, path: str, kind: FieldIndexType) -> None:
        self._fields.make(path, kind)

    def drop_field_index(self, path: str) -> None:
        self._fields.drop(path)

    def begin_load(self, tenant_path: str | None) -> None:
        """Index the payload fields that lack an index, and turn off the server's graph until ``build_index``.

        The graph stays where the server forbids exact search, because it then refuses searches without a graph.
        """
        self.index_fields(tenant_path)
        if self._known().exact:
            self._structure.pause_index()

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Send the server these settings if it has others; it then builds the index while it serves searches."""
        del force  # the server decides when to build
        return self._structure.build_index(settings)

    def indexed(self, chunks: int) -> int:
        info = self._info()
        vectors = info.config.params.vectors
        names = list(vectors) if isinstance(vectors, dict) else [DENSE]
        return indexed_chunks(self, info.indexed_vectors_count or 0, chunks, names)

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        options = {"with_payload": payload_selector(fields), "with_vectors": [vector] if vector else False}
        records = self._within(lambda limits: self._retrieve(ids, PAGE, limits, options))
        return {str(record.id): stored_point(record, vector) for record in records}

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        options = {"with_payload": False, "with_vectors": [states_name(vector)]}
        return stored_states(self._within(lambda limits: self._retrieve(ids, STATES_PAGE, limits, options)), vector)

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        scrolled = self._scroll(self._fields.fitted(conditions), fields, PAGE)
        by_id = attrgetter("id")
        return (next(same) for _, same in groupby(heapq.merge(*scrolled, key=by_id), by_id))

    def holds(self, conditions: Conditions) -> bool:
        return any(next(points, None) for points in self._scroll(self._fields.fitted(conditions), [], 1))

    def count(self, conditions: Conditions) -> int:
        conditions = self._fields.fitted(conditions)
        wanted = client_filter(conditions)

        def count(limits: Limits) -> int | None:
            parts = narrowed(wanted, limits)
            if not limits.exact or len(parts) > 1:
                return None
            refill = limits.refill(reads=1 + conditions_of(wanted))
            return self._requests.call(
                self._client.count, count_filter=parts[0], exact=True, refill_seconds=refill
            ).count

        counted = self._within(count)
        if counted is not None:
            return counted
        return len({point.id for points in self._scroll(conditions, [], _COUNTED) for point in points})

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        queries = list(map(self._fields.fitted_query, queries))

        def search(limits: Limits) -> list[list[Scored]]:
            if not limits.exact and any(map(needs_exact, queries)):
                raise StoreLimitError(
                    f"{self.location}: the server permits no exact search (search_allow_exact): search without exact"
                )
            asked = [requests_for(query, limits, indexed=not self._local) for query in queries]
            answers: list[list[Scored]] = []
            for batch in batches((each for requests in asked for each in requests), limits):
                refill = limits.refill(reads=cost(batch))
                found = self._requests.call(
                    self._client.query_batch_points, batch, refill_seconds=refill, **self._consistency()
                )
                answers += [scored(answer.points) for answer in found]
            left = iter(answers)
            return [
                merged([next(left) for _ in requests], query.limit)
                for query, requests in zip(queries, asked, strict=True)
            ]

        return self._within(search)

    def candidates(self, searches: Sequence[Search], notice: str) -> Steps[Candidates]:
        """Return the candidates by one request, see ``searching``, or by more where the server permits less."""
        if self._local:
            return (yield from super().candidates(searches, notice))
        searches = yield from self._fields.fitted_searches(searches)
        batch = search_batch(searches, notice, self._shards)
        found = None
        limits = self._known()
        if fits(batch, limits):
            try:
                options = {"refill_seconds": limits.refill(reads=cost(batch)), **self._consistency()}
                alone = limits.searches is not None or limits.reads is not None
                found = yield Ask("query_batch_points", (sendable(batch),), options, alone)
            except StoreLimitError:
                yield from worked(self._info)
        if found is None:
            return (yield from super().candidates(searches, notice))
        candidates, complete = candidates_of(searches, [each.points for each in found], self._shards)
        if not complete:
            yield from worked(partial(fill_in, searches, candidates, self.search))
        return candidates

    def points(self, ids: Sequence[str], vector: str | None = None) -> Steps[dict[str, Point]]:
        found: dict[str, Point] = {}
        limits = self._known()
        for page in pages(ids, limits.read(PAGE)):
            options = {"refill_seconds": limits.refill(reads=len(page)), **self._consistency()}
            options |= {"with_payload": True, "with_vectors": [vector] if vector else False}
            records = yield Ask("retrieve", (page,), options, alone=limits.reads is not None)
            found.update((str(record.id), stored_point(record, vector)) for record in records)
        return found

    def described(self) -> Steps[dict[str, Any]]:
        return dict(self._noted((yield from asked("get_collection"))).config.metadata or {})

    def run(self, steps: Steps[T]) -> T:
        def ask(step: Ask) -> Any:
            return self._requests.call(getattr(self._client, step.method), *step.arguments, **step.options)

        return run(steps, ask)

    async def run_awaiting(self, steps: Steps[T]) -> T:
        return self.run(steps) if self._awaited is None else await run_awaiting(steps, self._awaited.perform)

    def close(self) -> None:
        """Close the connections, except those of the caller's clients."""
        if self._awaited is not None:
            self._awaited.close()
        if self._owned:
            self._client.close()

    def index_fields(self, tenant_path: str | None) -> None:
        """Index the payload fields that conditions name; an existing index stays."""
        known = set() if self._local else set(self._info().payload_schema or {})
        self._structure.index_fields(tenant_path, known)
        self._unready = False

    def _within(self, work: Callable[[Limits], T]) -> T:
        """Do the work within the limits; if they have changed meanwhile, do it once more, within those of now."""
        known = self._known()
        try:
            return work(known)
        except StoreLimitError:
            self._info()
            if self._known() == known:
                raise
            return work(self._known())

    def _known(self) -> Limits:
        if self._limits is None:
            self._info()
        return self._limits or Limits()

    def _info(self) -> models.CollectionInfo:
        """Return what the server says of the collection."""
        return self._noted(self._requests.call(self._client.get_collection))

    def _noted(self, info: models.CollectionInfo) -> models.CollectionInfo:
        """Keep the collection's limits, its indexes, its number of shards, and what reads ask; return ``info``."""
        self._fields.learn(info)
        self._limits = limits_of(info.config.strict_mode_config, self._requests.wait_seconds)
        self._requests.most_timeout = self._limits.timeout
        self._recorded = (info.config.metadata or {}).get(cluster.READ_CONSISTENCY)
        self._shards = max(1, info.config.params.shard_number or 1)
        return info

    def _consistency(self) -> dict[str, Any]:
        """Return the option of reads that says how many copies they ask."""
        chosen = self._asked if self._asked is not None else self._recorded
        if chosen is None or self._local:
            return {}
        return {"consistency": chosen if isinstance(chosen, int) else models.ReadConsistencyType(chosen)}

    def _prepare(self) -> None:
        """Before the first write, index the fields that an older version has left without an index."""
        if self._unready and not self._local:
            self._structure.index_older(set(self._info().payload_schema or {}))
        self._unready = False

    def _write(self, limits: Limits, method: Callable[..., object], points: Sequence[Any], **options: Any) -> None:
        self._requests.call(method, points, wait=True, refill_seconds=limits.refill(writes=len(points)), **options)

    def _retrieve(self, ids: Sequence[str], most: int, limits: Limits, options: Mapping[str, Any]) -> list[Any]:
        found: list[Any] = []
        for page in pages(ids, limits.read(most)):
            refill = limits.refill(reads=len(page))
            found += self._requests.call(
                self._client.retrieve, page, refill_seconds=refill, **options, **self._consistency()
            )
        return found

    def _scroll(self, conditions: Conditions, fields: Sequence[str] | None, most: int) -> list[Iterator[Point]]:
        """Return iterators over points, each in the order of ids; together they yield all, and some several times."""
        wanted = client_filter(conditions)
        begun = self._within(
            lambda limits: [
                (part, *self._page(part, None, fields, limits.page(most))) for part in narrowed(wanted, limits)
            ]
        )

        def scrolled(part: models.Filter | None, records: list[Any], following: Any) -> Iterator[Point]:
            yield from map(stored_point, records)
            while following is not None:
                records, following = self._next_page(part, following, fields, most)
                yield from map(stored_point, records)

        return [scrolled(*each) for each in begun]

    def _next_page(
        self, filter: models.Filter | None, start: Any, fields: Sequence[str] | None, most: int
    ) -> tuple[list[Any], Any]:
        return self._within(lambda limits: self._page(filter, start, fields, limits.page(most)))

    def _page(
        self, filter: models.Filter | None, start: Any, fields: Sequence[str] | None, size: int
    ) -> tuple[list[Any], Any]:
        return self._requests.call(
            self._client.scroll,
            scroll_filter=filter,
            limit=size,
            offset=start,
            with_payload=payload_selector(fields),
            with_vectors=False,
            refill_seconds=self._known().refill(reads=1 + conditions_of(filter)),
            **self._consistency(),
        )


def _selectors(ids: list[str], revisions: Collection[str] | None, limits: Limits) -> Iterator[models.PointsSelector]:
    """Yield what selects these points for deletion; with ``revisions``, only those that carry one of them."""
    if revisions is None:
        yield models.PointIdsList(points=list(ids))
        return
    for page in pages(revisions, limits.named(max(len(revisions), 1))):
        unchanged = (IdIs(tuple(ids)), field_is("revision", *page))
        for wanted in narrowed(client_filter(unchanged), limits):
            yield models.FilterSelector(filter=wanted or models.Filter())
