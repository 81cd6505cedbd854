"""The border to the stores: points in, scored points out.

A backend keeps points and answers exact or approximate queries; it knows nothing of documents, models or commits.
Both backends promise the same, and ``tests/congruence/test_backends.py`` holds both to it:

- Writes take effect in their order: whatever happens, a later one is not kept without the earlier ones. After ``flush``
  they are durable.
- Points without vectors are found by ``retrieve`` and ``scroll`` only, and do not count for inverse document
  frequencies.
- Every exception of the store comes out as a ``StoreError``.

What a backend hands to its store and gets back is translated in a file of its own (``edge_values``, ``client_values``),
conditions on payloads from their neutral form in ``conditions``.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from twinvec.engines.base import FloatArray
from twinvec.lexical import SparseVector
from twinvec_qdrant.backends.conditions import Condition, Conditions
from twinvec_qdrant.index_settings import USUAL, IndexSettings

DENSE = "dense"
SPARSE = "sparse"
"""Names of the two vectors of a chunk. While a collection changes its model, chunks have a second dense one."""

_BATCH_BYTES = 4 * 1024 * 1024
_BATCH_POINTS = 512

INDEXED_FIELDS = ("kind", "source")
"""Payload fields with a keyword index."""


@dataclass(frozen=True, slots=True)
class Point:
    """A stored point.

    Attributes:
        id: A UUID in its canonical form.
        payload: As stored, or the part of it that was asked for.
        dense: Shape (dim,), or None.
        sparse: Term ids and weights, or None.
        vector: Name of the dense vector.
    """

    id: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    dense: FloatArray | None = None
    sparse: SparseVector | None = None
    vector: str = DENSE


@dataclass(frozen=True, slots=True)
class Query:
    """One search: by a dense or by a sparse vector; ``fields`` of the payload come with what is found.

    ``name`` is that of the stored dense vector to compare with.
    ``exact`` passes over the index of dense vectors, and over their quantised copies: every stored vector is compared.
    ``index`` says how they are searched otherwise.
    """

    vector: FloatArray | SparseVector
    limit: int
    conditions: tuple[Condition, ...] = ()
    fields: tuple[str, ...] = ()
    exact: bool = False
    name: str = DENSE
    index: IndexSettings = USUAL


@dataclass(frozen=True, slots=True)
class Scored:
    """A found point: cosine, or BM25 by the store's document frequencies."""

    id: str
    score: float
    payload: Mapping[str, Any]


def in_batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Cut points into requests of a few megabytes: stores refuse large ones, and a log entry must fit its file."""
    batch: list[Point] = []
    size = 0
    for point in points:
        weight = size_of(point)
        if batch and (size + weight > _BATCH_BYTES or len(batch) == _BATCH_POINTS):
            yield batch
            batch, size = [], 0
        batch.append(point)
        size += weight
    if batch:
        yield batch


def size_of(point: Point) -> int:
    """About the size of a point as JSON."""
    dense = 0 if point.dense is None else 12 * len(point.dense)
    sparse = 0 if point.sparse is None else 22 * len(point.sparse[0])
    return dense + sparse + sum(_weight(value) for value in point.payload.values()) + 64


def _weight(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return sum(len(key) + _weight(each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(_weight, value))
    return 8


def stored_point(identity: object, payload: Mapping[str, Any] | None, vectors: object, vector: str | None) -> Point:
    """A point as either store gives it back, with the dense vector named ``vector``, if it has one."""
    dense = vectors.get(vector) if vector and isinstance(vectors, dict) else None
    return Point(
        str(identity),
        payload or {},
        None if dense is None else np.asarray(dense, dtype=np.float32),
        vector=vector or DENSE,
    )


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a collection is made of when there is none yet."""

    dim: int
    metadata: Mapping[str, Any]
    index: IndexSettings = USUAL
    tenant_path: str | None = None
    """Where in payloads tenants are named, where there are many: gets an index of its own."""


class Store(Protocol):
    """The place of one collection, whether it exists or not."""

    location: str
    """Where it is, for messages: a folder or an address, without secrets."""

    def peek(self) -> dict[str, Any] | None:
        """The collection's description, None where there is no collection; opens and writes nothing."""
        ...

    def neighbours(self) -> str:
        """Where the collection would be and what else is there, for the message that there is no such collection."""
        ...

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """The description of every collection in the same place, by name; empty where there is none to be read."""
        ...

    def open(self) -> Backend:
        """The collection that is there."""
        ...

    def drop(self) -> None:
        """Remove the collection with all it holds; nothing happens where there is none."""
        ...

    def create(self, new: NewCollection) -> Backend:
        """Make the collection; what another process makes at the same moment is opened."""
        ...

    def close(self) -> None:
        """Let go of what was needed to look, where neither ``open`` nor ``create`` has returned."""
        ...


class Backend(Protocol):
    """One collection in a store."""

    location: str
    """Where it is, for messages: a folder or an address, without secrets."""

    place: Hashable
    """Equal for two backends of one collection."""

    exclusive: bool
    """Whether no other process can write while this one is open."""

    writing: AbstractContextManager[object, bool | None]
    """Held by the one who writes, among the threads that share this backend."""

    def read_metadata(self) -> dict[str, Any]:
        """The collection's own description."""
        ...

    def write_metadata(self, metadata: Mapping[str, Any]) -> None:
        """Replace it."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points; the same id again replaces."""
        ...

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        """Write each record only where the stored one has the ``revision`` expected (None: where there is none).

        Who lost is seen by reading back; a record lost is left as another writer wrote it.
        """
        ...

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        """Replace the sparse vectors of stored points, by id."""
        ...

    def add_vector(self, name: str, dim: int) -> None:
        """Give points room for one more dense vector; nothing changes where there is one of that name."""
        ...

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector from all points; nothing changes where there is none of that name."""
        ...

    def update_dense(self, name: str, vectors: Mapping[str, FloatArray]) -> None:
        """Replace the dense vectors ``name`` of stored points, by id."""
        ...

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        """Remove points; ids that are not there are passed over.

        With ``revisions``, only points that still carry one of them as ``revision`` when they are removed: another
        writer may have written the same points anew.
        """
        ...

    def flush(self) -> None:
        """Make all that was written durable."""
        ...

    def defer_index(self) -> None:
        """Leave the index of dense vectors alone until ``build_index``; many points are about to be written."""
        ...

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index of dense vectors where much is missing of it, or with ``force``; whether it was done.

        Searches go on meanwhile; writers wait.
        """
        ...

    def indexed(self) -> int:
        """About how many vectors are in indexes, sparse ones included, which always are."""
        ...

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        """The points that are there, by id; ``fields`` None for the whole payload, ``vector`` names a dense one."""
        ...

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        """All points that satisfy the conditions, without vectors, in the order of their ids."""
        ...

    def count(self, conditions: Conditions) -> int:
        """How many points satisfy the conditions, exactly."""
        ...

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        """For each query the best points, best first."""
        ...

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        ...
