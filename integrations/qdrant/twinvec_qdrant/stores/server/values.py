"""Points, searches and conditions as a Qdrant server's client has them."""

from __future__ import annotations

from qdrant_client import models

from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores import conditions as neutral
from twinvec_qdrant.stores.points import SPARSE, Point, Query, dense_vectors, stored_point


def struct(point: Point) -> models.PointStruct:
    """A point to be written."""
    vectors = dense_vectors(point)
    if point.sparse is not None:
        vectors[SPARSE] = client_sparse(point.sparse)
    return models.PointStruct(id=point.id, vector=vectors, payload=dict(point.payload))


def replacement(record: Point, revision: str) -> models.UpsertOperation:
    """A point that replaces the one with this revision, and no other."""
    stored = models.Filter(
        must=[models.FieldCondition(key="revision", match=models.MatchValue(value=revision))],
    )
    return models.UpsertOperation(
        upsert=models.PointsList(
            points=[struct(record)], update_filter=stored, update_mode=models.UpdateMode.UPDATE_ONLY
        )
    )


def client_sparse(vector: SparseVector) -> models.SparseVector:
    """A sparse vector."""
    return models.SparseVector(indices=vector[0].tolist(), values=vector[1].tolist())


def point_of(record: models.Record, vector: str | None = None) -> Point:
    """A stored point, with the dense vector of this name."""
    return stored_point(record.id, record.payload, record.vector, vector)


def client_request(query: Query, *, indexed: bool) -> models.QueryRequest:
    """A search, in a store that has an index or, like the client's local mode, has none to be told of."""
    words = isinstance(query.vector, tuple)
    return models.QueryRequest(
        query=client_sparse(query.vector) if isinstance(query.vector, tuple) else query.vector.tolist(),
        using=SPARSE if words else query.name,
        filter=client_filter(query.conditions),
        limit=query.limit,
        params=_params(query) if indexed and not words else None,
        with_payload=list(query.fields),
        with_vector=False,
    )


def _params(query: Query) -> models.SearchParams | None:
    settings = query.index
    if query.exact:
        return models.SearchParams(exact=True)
    if settings.quantization == "none":
        return models.SearchParams(hnsw_ef=settings.ef) if settings.ef else None
    quantization = models.QuantizationSearchParams(rescore=True, oversampling=settings.oversampling_factor)
    return models.SearchParams(hnsw_ef=settings.ef, quantization=quantization)


def client_states(dim: int) -> models.VectorParams:
    """How a server keeps token states: on the disk, without a graph; they are only compared with."""
    return models.VectorParams(
        size=dim,
        distance=models.Distance.DOT,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        datatype=models.Datatype.FLOAT16,
        hnsw_config=models.HnswConfigDiff(m=0),
        on_disk=True,
    )


def client_quantization(settings: IndexSettings) -> models.QuantizationConfig | None:
    """What a server keeps as small copies of vectors."""
    if settings.quantization == "int8":
        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=int8)
    if settings.quantization == "turbo":
        turbo = models.TurboQuantQuantizationConfig(bits=models.TurboQuantBitSize.BITS4, always_ram=True)
        return models.TurboQuantization(turbo=turbo)
    if settings.quantization == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def client_filter(conditions: neutral.Conditions) -> models.Filter | None:
    """All of the conditions."""
    return models.Filter(must=[_condition(each) for each in conditions]) if conditions else None


def _condition(condition: neutral.Condition) -> models.Condition:
    if isinstance(condition, neutral.IdIs):
        return models.HasIdCondition(has_id=list(condition.ids))
    if isinstance(condition, neutral.LacksVector):
        return models.Filter(must_not=[models.HasVectorCondition(has_vector=condition.name)])
    found: list[models.Condition] = [_test(each) for each in neutral.alternatives(condition)]
    if condition.instead:
        instead = models.Filter(should=[_test(each) for each in neutral.alternatives(condition, condition.instead)])
        missing = models.IsEmptyCondition(is_empty=models.PayloadField(key=condition.paths[0]))
        found.append(models.Filter(must=[missing, instead]))
    return models.Filter(should=found)


def _test(test: neutral.Test) -> models.FieldCondition:
    if isinstance(test, neutral.AnyText):
        return models.FieldCondition(key=test.path, match=models.MatchAny(any=list(test.texts)))
    if isinstance(test, neutral.Exactly):
        return models.FieldCondition(key=test.path, match=models.MatchValue(value=test.value))
    return models.FieldCondition(key=test.path, range=models.Range(**dict(test.bounds)))
