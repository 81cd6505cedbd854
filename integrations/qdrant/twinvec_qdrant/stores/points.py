"""Points, queries and scored points for all stores, and slices of points for one request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray
from twinvec.retrieval.bm25 import SparseVector
from twinvec.support.slicing import sliced_by_weight
from twinvec_qdrant.settings import DEFAULT_INDEX, IndexSettings
from twinvec_qdrant.stores.conditions import StoreCondition

T = TypeVar("T")

DENSE = "dense"
"""Name of a chunk's dense vector in a new collection. After a migration, the dense vector has another name."""

UNNAMED = ""
"""Name of the dense vector in a collection of a framework that gives it no name (``adopting``)."""

SPARSE = "sparse"
"""Name of a chunk's sparse vector (BM25)."""

PAGE = 1000
"""Largest number of points in one request."""

STATES_PAGE = 32
"""Largest number of points in one request that returns token states, which are large."""

BATCH_POINTS = 512
"""Largest number of points in one write."""

_BATCH_BYTES = 4 * 1024 * 1024

States = npt.NDArray[np.float16]
"""The token states of a text: shape (tokens, dim). Each state has length 1."""


@dataclass(frozen=True, slots=True)
class Point:
    """A stored point; ``vector`` is the name of its dense vector (shape (dim,)).

    ``id`` is a UUID in canonical form; in an adopted collection, it may also be an integer, written in digits.

    ``payload`` holds only the fields that were requested. ``states``, the token states, are written together with the
    dense vector; only ``Backend.states`` reads them back.
    """

    id: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    dense: FloatArray | None = None
    sparse: SparseVector | None = None
    vector: str = DENSE
    states: States | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """One search by a dense vector, a sparse vector or token states.

    Attributes:
        vector: Dense, shape (dim,); sparse; or token states, shape (tokens, dim), which score a point by MaxSim: the
            sum over the query's tokens of the best cosine.
        fields: Payload fields to return; None for all.
        exact: Compare every stored dense vector, without the index and its quantised copies.
        name: Name of the stored dense vector, or of the token states (``states_name``).
        index: Settings of an approximate search.
    """

    vector: FloatArray | SparseVector
    limit: int
    conditions: tuple[StoreCondition, ...] = ()
    fields: tuple[str, ...] | None = ()
    exact: bool = False
    name: str = DENSE
    index: IndexSettings = DEFAULT_INDEX


class Scored(NamedTuple):
    """A point that a search found, with its score: cosine, BM25 (with the store's document frequencies) or MaxSim."""

    id: str
    score: float
    payload: Mapping[str, Any]


def states_name(vector: str) -> str:
    """Return the name of the token states that belong to the dense vector of this name."""
    return f"{vector}-states"


def pages(items: Iterable[T], size: int = PAGE) -> Iterator[list[T]]:
    """Cut items, in order, into lists of at most ``size``; read items only when their list is requested."""
    left = iter(items)
    while page := list(islice(left, size)):
        yield page


def in_batches(points: Sequence[Point], most: int = BATCH_POINTS) -> Iterator[list[Point]]:
    """Cut points into batches of at most ``most`` points and a few megabytes; stores limit the size of a write."""
    return (batch for batch, _ in weighed_batches(points, most))


def weighed_batches(points: Sequence[Point], most: int = BATCH_POINTS) -> Iterator[tuple[list[Point], int]]:
    """Yield the batches of ``in_batches``, each with its estimated size in bytes."""
    sizes = [(point, size_of(point)) for point in points]
    for batch in sliced_by_weight(sizes, itemgetter(1), most=most, heaviest=_BATCH_BYTES):
        yield [point for point, _ in batch], sum([size for _, size in batch])


def size_of(point: Point) -> int:
    """Estimate the size of a point as JSON, in bytes; Python's notation of a value is about as long as JSON's."""
    dense = sum([12 * numbers.size for numbers in (point.dense, point.states) if numbers is not None])
    sparse = 0 if point.sparse is None else 22 * len(point.sparse[0])
    payload = sum([len(value) if type(value) is str else len(str(value)) for value in point.payload.values()])
    return dense + sparse + payload + 64


def dense_vectors(point: Point) -> dict[str, Any]:
    """Return the dense vector and the token states of a point to write, by name."""
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[point.vector] = point.dense.tolist()
    if point.states is not None:
        vectors[states_name(point.vector)] = point.states.tolist()
    return vectors


def payload_selector(fields: Sequence[str] | None) -> bool | list[str]:
    """Return the argument ``with_payload`` of both stores: True for the whole payload, or a list of fields."""
    return True if fields is None else list(fields)


def vector_selector(vector: str | None) -> bool | list[str]:
    """Return the argument ``with_vectors`` of both stores: the dense vector of this name, or none."""
    return False if vector is None else [vector]


def stored_point(record: Any, vector: str | None = None) -> Point:
    """Return the point in a store's answer (``record``), with the dense vector named ``vector`` if it has one."""
    dense = None if vector is None else stored_vectors(record).get(vector)
    return Point(
        str(record.id),
        record.payload or {},
        None if dense is None else np.asarray(dense, dtype=np.float32),
        vector=DENSE if vector is None else vector,
    )


def stored_vectors(record: Any) -> Mapping[str, Any]:
    """Return the vectors in a store's answer (``record``) by name."""
    if not record.vector:
        return {}
    return record.vector if isinstance(record.vector, dict) else {UNNAMED: record.vector}


def stored_states(records: Iterable[Any], vector: str) -> dict[str, States]:
    """Return token states by point id from a store's answer (``records``); ``vector`` names their dense vector."""
    name = states_name(vector)
    return {
        str(record.id): np.asarray(record.vector[name], dtype=np.float16)
        for record in records
        if isinstance(record.vector, dict) and name in record.vector
    }


def scored(found: Iterable[Any]) -> list[Scored]:
    """Return the scored points that a store found."""
    return [Scored(str(each.id), each.score, each.payload or {}) for each in found]
