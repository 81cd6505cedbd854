"""Points, searches, conditions and payload indexes as objects of the embedded engine."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import numpy as np
import qdrant_edge as edge

from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.stores import conditions as tests
from twinvec_qdrant.stores.base import FieldIndexType
from twinvec_qdrant.stores.points import SPARSE, Point, Query, dense_vectors, payload_selector

TOKEN_STATES = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
"""How the engine compares token states."""

INDEX_PARAMS: dict[FieldIndexType, Any] = {
    "keyword": edge.KeywordIndexParams,
    "float": edge.FloatIndexParams,
    "bool": edge.BoolIndexParams,
    "datetime": edge.DatetimeIndexParams,
    "geo": edge.GeoIndexParams,
    "text": partial(edge.TextIndexParams, tokenizer=edge.TokenizerType.Word, lowercase=True, phrase_matching=True),
}
"""The engine's parameters for each type of payload index. Indexes are on disk; the system caches what searches use."""

# without a filter, the engine's document frequencies count deleted points until the engine optimises
_LIVE_FREQUENCIES = edge.SearchParams(
    idf=edge.IdfParams(edge.Filter(must=[edge.FieldCondition("kind", match=edge.MatchValue("chunk"))]))
)


def edge_point(point: Point) -> edge.Point:
    vectors = dense_vectors(point)
    if point.sparse is not None:
        vectors[SPARSE] = edge_sparse(point.sparse)
    return edge.Point(point.id, vectors, dict(point.payload))


def edge_sparse(vector: SparseVector) -> edge.SparseVector:
    return edge.SparseVector(vector[0].tolist(), vector[1].tolist())


def edge_request(query: Query) -> edge.QueryRequest:
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
        with_payload=payload_selector(query.fields),
        with_vector=False,
        params=params,
    )


def edge_filter(conditions: tests.Conditions) -> edge.Filter | None:
    """Return a filter that requires all conditions; None if the list is empty."""
    return tests.translated(conditions, edge.Filter, _condition)


def counted(shard: edge.EdgeShard, wanted: edge.Filter | None) -> int:
    """Return the exact number of points that a filter matches, or of all points for None."""
    return shard.count(edge.CountRequest(exact=True, filter=wanted))


def _condition(test: tests.PointTest) -> Any:
    if isinstance(test, tests.IdIs):
        return edge.HasIdCondition(set(test.ids))
    if isinstance(test, tests.HasVector):
        return edge.HasVectorCondition(test.name)
    if isinstance(test, tests.IsEmpty):
        return edge.IsEmptyCondition(test.path)
    if isinstance(test, tests.AnyText):
        return edge.FieldCondition(test.path, match=edge.MatchAny(list(test.texts)))
    if isinstance(test, tests.Exactly):
        # the engine takes Python's bool for an integer, but not NumPy's
        value = cast(bool, np.bool_(test.value)) if isinstance(test.value, bool) else test.value
        return edge.FieldCondition(test.path, match=edge.MatchValue(value))
    if isinstance(test, tests.Within):
        return edge.FieldCondition(test.path, range=edge.RangeFloat(**dict(test.bounds)))
    if isinstance(test, tests.WithinDates):
        limits = {name: limit.isoformat() for name, limit in test.bounds}
        return edge.FieldCondition(test.path, range=edge.RangeDateTime(**limits))
    if isinstance(test, tests.HasText):
        match = edge.MatchPhrase(test.text) if test.phrase else edge.MatchText(test.text)
        return edge.FieldCondition(test.path, match=match)
    return edge.FieldCondition(test.path, is_null=True)


def index_types(info: edge.ShardInfo) -> dict[str, str]:
    """Return the type of every payload index, by path."""
    return {path: str(each.data_type).rpartition(".")[2].lower() for path, each in info.payload_schema.items()}
