"""Points, searches and conditions as objects of the embedded engine."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import qdrant_edge as edge

from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.stores import conditions as neutral
from twinvec_qdrant.stores.points import SPARSE, Point, Query, dense_vectors

TOKEN_STATES = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
"""How the engine compares token states."""

# without a filter, the engine's document frequencies count deleted points until it is optimised
_LIVE_FREQUENCIES = edge.SearchParams(
    idf=edge.IdfParams(edge.Filter(must=[edge.FieldCondition("kind", match=edge.MatchValue("chunk"))]))
)


def edge_point(point: Point) -> edge.Point:
    """Return a point to write."""
    vectors = dense_vectors(point)
    if point.sparse is not None:
        vectors[SPARSE] = edge_sparse(point.sparse)
    return edge.Point(point.id, vectors, dict(point.payload))


def edge_sparse(vector: SparseVector) -> edge.SparseVector:
    """Return a sparse vector."""
    return edge.SparseVector(vector[0].tolist(), vector[1].tolist())


def edge_request(query: Query) -> edge.QueryRequest:
    """Return a search request."""
    if isinstance(query.vector, tuple):
        nearest = edge.Query.Nearest(edge_sparse(query.vector), using=SPARSE)
        params = _LIVE_FREQUENCIES
    else:
        nearest = edge.Query.Nearest(query.vector.tolist(), using=query.name)
        settings = query.index
        params = edge.SearchParams(
            hnsw_ef=settings.ef,
            exact=query.exact,
            quantization=edge.QuantizationSearchParams(
                ignore=settings.quantization == "none", rescore=True, oversampling=settings.oversampling_factor
            ),
        )
    return edge.QueryRequest(
        limit=query.limit,
        query=nearest,
        filter=edge_filter(query.conditions),
        with_payload=list(query.fields),
        with_vector=False,
        params=params,
    )


def edge_filter(conditions: neutral.Conditions) -> edge.Filter | None:
    """Return a filter that requires all conditions; None if the list is empty."""
    return edge.Filter(must=[_condition(each) for each in conditions]) if conditions else None


def _condition(condition: neutral.StoreCondition) -> Any:
    if isinstance(condition, neutral.IdIs):
        return edge.HasIdCondition(set(condition.ids))
    if isinstance(condition, neutral.LacksVector):
        return edge.Filter(must_not=[edge.HasVectorCondition(condition.name)])
    found: list[Any] = [_test(each) for each in neutral.alternatives(condition)]
    if condition.instead:
        instead = edge.Filter(should=[_test(each) for each in neutral.alternatives(condition, condition.instead)])
        found.append(edge.Filter(must=[edge.IsEmptyCondition(condition.paths[0]), instead]))
    return edge.Filter(should=found)


def _test(test: neutral.Test) -> edge.FieldCondition:
    if isinstance(test, neutral.AnyText):
        return edge.FieldCondition(test.path, match=edge.MatchAny(list(test.texts)))
    if isinstance(test, neutral.Exactly):
        # the engine reads Python's bool as an integer
        value = cast(bool, np.bool_(test.value)) if isinstance(test.value, bool) else test.value
        return edge.FieldCondition(test.path, match=edge.MatchValue(value))
    return edge.FieldCondition(test.path, range=edge.RangeFloat(**dict(test.bounds)))
