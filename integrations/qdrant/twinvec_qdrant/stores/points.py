"""What goes into a store and comes out: points, queries, scored points, and batches of points."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray
from twinvec.retrieval.bm25 import SparseVector
from twinvec.support.slicing import sliced_by_weight
from twinvec_qdrant.settings import DEFAULT_INDEX, IndexSettings
from twinvec_qdrant.stores.conditions import Condition

DENSE = "dense"


SPARSE = "sparse"
"""Names of the two vectors of a chunk. While a collection changes its model, chunks have a second dense one."""


States = npt.NDArray[np.float16]
"""The token states of a text, shape (tokens, dim), of length 1; see ``late_interaction``."""


_BATCH_BYTES = 4 * 1024 * 1024


_BATCH_POINTS = 512


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
    states: States | None = None
    """Token states to be written beside the dense vector; read back by ``Backend.states`` only."""


@dataclass(frozen=True, slots=True)
class Query:
    """One search: by a dense or by a sparse vector; ``fields`` of the payload come with what is found.

    ``name`` is that of the stored dense vector to compare with, or that of token states (``states_name``), for a
    ``vector`` of shape (tokens, dim): the score is the sum over its tokens of the best cosine.
    ``exact`` passes over the index of dense vectors, and over their quantised copies: every stored vector is compared.
    ``index`` says how they are searched otherwise.
    """

    vector: FloatArray | SparseVector
    limit: int
    conditions: tuple[Condition, ...] = ()
    fields: tuple[str, ...] = ()
    exact: bool = False
    name: str = DENSE
    index: IndexSettings = DEFAULT_INDEX


@dataclass(frozen=True, slots=True)
class Scored:
    """A found point: cosine, BM25 by the store's document frequencies, or the sum of best cosines of token states."""

    id: str
    score: float
    payload: Mapping[str, Any]


def states_name(vector: str) -> str:
    """The name of the token states that stand beside the dense vector of this name."""
    return f"{vector}-states"


def in_batches(points: Sequence[Point]) -> Iterator[list[Point]]:
    """Cut points into requests of a few megabytes: stores refuse large ones, and a log entry must fit its file."""
    return sliced_by_weight(points, size_of, most=_BATCH_POINTS, heaviest=_BATCH_BYTES)


def size_of(point: Point) -> int:
    """About the size of a point as JSON."""
    dense = sum(12 * numbers.size for numbers in (point.dense, point.states) if numbers is not None)
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


def dense_vectors(point: Point) -> dict[str, Any]:
    """The dense vector and the token states of a point to be written, by name."""
    vectors: dict[str, Any] = {}
    if point.dense is not None:
        vectors[point.vector] = point.dense.tolist()
    if point.states is not None:
        vectors[states_name(point.vector)] = point.states.tolist()
    return vectors


def stored_point(identity: object, payload: Mapping[str, Any] | None, vectors: object, vector: str | None) -> Point:
    """A point as either store gives it back, with the dense vector named ``vector``, if it has one."""
    dense = vectors.get(vector) if vector and isinstance(vectors, dict) else None
    return Point(
        str(identity),
        payload or {},
        None if dense is None else np.asarray(dense, dtype=np.float32),
        vector=vector or DENSE,
    )


def stored_states(records: Iterable[Any], vector: str) -> dict[str, States]:
    """The token states beside the dense vector of this name, as either store's records have them, by id."""
    name = states_name(vector)
    return {
        str(record.id): np.asarray(record.vector[name], dtype=np.float16)
        for record in records
        if isinstance(record.vector, dict) and name in record.vector
    }
