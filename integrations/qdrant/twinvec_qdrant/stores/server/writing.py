"""Writing, changing and deleting points of a server's collection; every call waits until the server has applied it.

Points are written in two streams of requests: while the server works on a request of one stream, the client prepares a
request of the other stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

from qdrant_client import models

from twinvec.retrieval.bm25 import SparseVector
from twinvec.support.cpu import thread_pool
from twinvec_qdrant.stores.conditions import IdIs, field_is
from twinvec_qdrant.stores.points import BATCH_POINTS, PAGE, Point, in_batches, pages
from twinvec_qdrant.stores.server import cluster
from twinvec_qdrant.stores.server.limits.narrowing import narrowed
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.reading import Reading
from twinvec_qdrant.stores.server.structure import Structure
from twinvec_qdrant.stores.server.values import (
    client_filter,
    client_points,
    client_vectors,
    conditional_update,
    fields_update,
    wire_id,
)
from twinvec_qdrant.stores.steps import worked

Item = TypeVar("Item")

STREAM_POINTS = 256
"""Largest number of points in one write of a stream; a small number gives both streams work."""

_Batch = tuple[str | None, Sequence[Point]]
"""The shard key of one write, and its points."""


class Writing(Structure, Reading):
    """The methods of a server's backend that write points."""

    def upsert(self, points: Sequence[Point]) -> None:
        self._prepare()

        def upsert(limits: Limits) -> None:
            def send(batch: _Batch) -> None:
                key, some = batch
                self._write(limits, self._client.upsert, client_points(some, self._filler), **_routed(key))

            of_keys = _by_key(points, None if self._tenants is None else self._tenants.key_of)
            in_streams(send, _in_batches(of_keys, limits.written(STREAM_POINTS)), self._streams(limits))

        self._written(upsert)

    def _streams(self, limits: Limits) -> int:
        """Return how many streams write: two, but one in local mode, or if both would wait for a rate limit."""
        return 1 if self._local or limits.writes is not None else 2

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        self._prepare()
        old = {record.id: revision for record, revision in zip(records, expected, strict=True)}
        shared = None if self._tenants is None else cluster.SHARED
        added = [record for record in records if old[record.id] is None]
        replaced = [record for record in records if old[record.id] is not None]

        def commit(limits: Limits) -> None:
            def add(batch: Sequence[Point]) -> None:
                new = client_points(batch, self._filler)
                mode = models.UpdateMode.INSERT_ONLY
                self._write(limits, self._client.upsert, new, update_mode=mode, **_routed(shared))

            def exchange(batch: Sequence[Point]) -> None:
                new = client_points(batch, self._filler)
                operations = [
                    conditional_update(each, str(old[record.id]), shared)
                    for each, record in zip(new, batch, strict=True)
                ]
                self._write(limits, self._client.batch_update_points, operations)

            for send, some in ((add, added), (exchange, replaced)):
                in_streams(send, in_batches(some, limits.written(STREAM_POINTS)), self._streams(limits))

        self._written(commit)

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        self._update([Point(key, sparse=words) for key, words in vectors.items()])

    def update_dense(self, points: Sequence[Point]) -> None:
        self._update([replace(point, sparse=None) for point in points])

    def add_fields(self, fields: Mapping[str, Mapping[str, Any]]) -> None:
        """Set these payload fields of stored points, by id; their other fields stay."""

        def add(limits: Limits) -> None:
            changed = [Point(key, values) for key, values in fields.items()]
            for batch in in_batches(changed, limits.written(BATCH_POINTS)):
                self._write(limits, self._client.batch_update_points, [fields_update(point) for point in batch])

        self._written(add)

    def _update(self, points: Sequence[Point]) -> None:
        """Replace the stored vectors by the vectors in these points."""
        of_keys = _by_key(points, None if self._tenants is None else self._stored_keys(points))

        def update(limits: Limits) -> None:
            for key, batch in _in_batches(of_keys, limits.written(BATCH_POINTS)):
                changes = [
                    models.PointVectors(id=wire_id(point.id), vector=vectors)
                    for point, vectors in zip(batch, client_vectors(batch), strict=True)
                ]
                self._write(limits, self._client.update_vectors, changes, **_routed(key))

        self._written(update)

    def _stored_keys(self, points: Sequence[Point]) -> Callable[[Point], str]:
        """Return a function that returns the shard key at which the server has stored a point."""
        found = self.run(self._by_id([point.id for point in points], PAGE, [], None))
        keys = {str(record.id): str(record.shard_key) for record in found}
        return lambda point: keys.get(point.id, cluster.SHARED)

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        self._prepare()

        def delete(limits: Limits) -> None:
            for page in pages(ids, limits.named(limits.removed(PAGE))):
                for selector in _selectors(page, revisions, limits):
                    refill = limits.refill(writes=len(page))
                    options = _routed(None if self._tenants is None else self._tenants.keys) | self._ordering()
                    self.requests.call(self._client.delete, selector, wait=True, refill_seconds=refill, **options)

        self._written(delete)

    def _written(self, work: Callable[[Limits], None]) -> None:
        self.run(self._within(lambda limits: worked(partial(work, limits))))

    def _write(self, limits: Limits, method: Callable[..., object], points: Sequence[Any], **options: Any) -> None:
        refill = limits.refill(writes=len(points))
        self.requests.call(method, points, wait=True, refill_seconds=refill, **options, **self._ordering())

    def _ordering(self) -> dict[str, Any]:
        """Return the option that makes all copies of a shard apply the writes of all writers in the same order.

        Every copy decides by itself whether the condition of a write holds. If the order differed, each of two racing
        writers could win at one copy. With this option, one copy of the shard receives all writes and sends them on; if
        that copy is down, another one takes its place.
        """
        return {"ordering": models.WriteOrdering.MEDIUM} if self._copies > 1 else {}


def _routed(key: str | list[str] | None) -> dict[str, Any]:
    """Return the option of a write that names its shard key, or its shard keys."""
    return {} if key is None else {"shard_key_selector": key}


def _by_key(points: Sequence[Point], key_of: Callable[[Point], str] | None) -> Mapping[str | None, list[Point]]:
    """Return the points by shard key, in order; if ``key_of`` is None, all points have the key None."""
    of_keys: dict[str | None, list[Point]] = {}
    for point in points:
        of_keys.setdefault(None if key_of is None else key_of(point), []).append(point)
    return of_keys


def _in_batches(of_keys: Mapping[str | None, Sequence[Point]], most: int) -> Iterator[_Batch]:
    return ((key, batch) for key, points in of_keys.items() for batch in in_batches(points, most))


def in_streams(send: Callable[[Item], object], items: Iterable[Item], streams: int = 2) -> None:
    """Call ``send`` for every item, with at most ``streams`` calls at once, and return when all calls have returned.

    A single stream or a single item needs no thread. After an error no further call begins, and the error is raised
    when the running calls have returned.
    """
    left = iter(items)
    first = list(islice(left, streams))
    if len(first) < 2:
        for item in chain(first, left):
            send(item)
        return
    with thread_pool(streams, "write") as pool:
        under_way = deque(pool.submit(send, item) for item in first)
        for item in left:
            under_way.popleft().result()
            under_way.append(pool.submit(send, item))
        while under_way:
            under_way.popleft().result()


def _selectors(ids: list[str], revisions: Collection[str] | None, limits: Limits) -> Iterator[models.PointsSelector]:
    """Yield the client's selectors of points to delete; with ``revisions``, they skip points of other revisions."""
    if revisions is None:
        yield models.PointIdsList(points=list(map(wire_id, ids)))
        return
    for page in pages(revisions, limits.named(max(len(revisions), 1))):
        unchanged = (IdIs(tuple(ids)), field_is("revision", *page))
        for wanted in narrowed(client_filter(unchanged), limits):
            yield models.FilterSelector(filter=wanted or models.Filter())
