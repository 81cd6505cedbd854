"""Points, searches and conditions as objects of Qdrant's client."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from qdrant_client import models

from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.filters.conditions import AllOf, Not, OneOf
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores import field_tests
from twinvec_qdrant.stores.conditions import Conditions, IdIs
from twinvec_qdrant.stores.field_tests import tests_of
from twinvec_qdrant.stores.points import SPARSE, Point, dense_vectors


def client_point(point: Point, filler: Mapping[str, Any] = MappingProxyType({})) -> models.PointStruct:
    """Return a point to write, without the client's check of every number and every value.

    ``filler`` are fields of points without vectors.
    """
    vectors = dense_vectors(point)
    if point.sparse is not None:
        vectors[SPARSE] = client_sparse(point.sparse)
    payload = {**point.payload} if vectors else {**filler, **point.payload}
    return models.PointStruct.model_construct(id=wire_id(point.id), vector=vectors, payload=payload)


def wire_id(key: str) -> int | str:
    """Return a point's id as the server takes it: an integer where it has only digits."""
    return int(key) if key.isdecimal() else key


def conditional_update(record: models.PointStruct, revision: str, shard_key: str | None) -> models.UpsertOperation:
    """Return an update that replaces the stored record, at this shard key, only if it has this revision."""
    stored = models.Filter(
        must=[models.FieldCondition(key="revision", match=models.MatchValue(value=revision))],
    )
    return models.UpsertOperation(
        upsert=models.PointsList(
            points=[record],
            shard_key=shard_key,
            update_filter=stored,
            update_mode=models.UpdateMode.UPDATE_ONLY,
        )
    )


def fields_update(point: Point) -> models.SetPayloadOperation:
    """Return an update that sets the payload fields of a stored point, without the client's check of every value."""
    change = models.SetPayload.model_construct(payload=dict(point.payload), points=[wire_id(point.id)])
    return models.SetPayloadOperation.model_construct(set_payload=change)


def client_sparse(vector: SparseVector) -> models.SparseVector:
    """Return a sparse vector, without the client's check of every number."""
    return models.SparseVector.model_construct(indices=vector[0].tolist(), values=vector[1].tolist())


def client_states(dim: int) -> models.VectorParams:
    """Return the storage of token states: on disk and without a graph, since they only rerank."""
    return models.VectorParams(
        size=dim,
        distance=models.Distance.DOT,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
        datatype=models.Datatype.FLOAT16,
        hnsw_config=models.HnswConfigDiff(m=0),
        on_disk=True,
    )


def client_quantization(settings: IndexSettings) -> models.QuantizationConfig | None:
    """Return the format of the small copies of vectors; None for no quantisation."""
    if settings.quantization == "int8":
        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=int8)
    if settings.quantization == "turbo":
        turbo = models.TurboQuantQuantizationConfig(bits=models.TurboQuantBitSize.BITS4, always_ram=True)
        return models.TurboQuantization(turbo=turbo)
    if settings.quantization == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def client_filter(conditions: Conditions) -> models.Filter | None:
    """Return a filter that requires all conditions; None if the list is empty."""
    return models.Filter(must=[_condition(tests_of(each)) for each in conditions]) if conditions else None


def _condition(tests: field_tests.Tests) -> models.Condition:
    if isinstance(tests, AllOf):
        return models.Filter(must=list(map(_condition, tests.parts)))
    if isinstance(tests, OneOf):
        return models.Filter(should=list(map(_condition, tests.parts)))
    if isinstance(tests, Not):
        return models.Filter(must_not=[_condition(tests.part)])
    if isinstance(tests, IdIs):
        return models.HasIdCondition(has_id=list(map(wire_id, tests.ids)))
    if isinstance(tests, field_tests.HasVector):
        return models.HasVectorCondition(has_vector=tests.name)
    if isinstance(tests, field_tests.HasValue):
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key=tests.path))
        return models.Filter(must_not=[empty])
    return _field(tests)


def _field(test: field_tests.FieldTest) -> models.FieldCondition:
    if isinstance(test, field_tests.AnyText):
        return models.FieldCondition(key=test.path, match=models.MatchAny(any=list(test.texts)))
    if isinstance(test, field_tests.Exactly):
        return models.FieldCondition(key=test.path, match=models.MatchValue(value=test.value))
    if isinstance(test, field_tests.Within):
        return models.FieldCondition(key=test.path, range=models.Range(**dict(test.bounds)))
    if isinstance(test, field_tests.WithinDates):
        return models.FieldCondition(key=test.path, range=models.DatetimeRange(**dict(test.bounds)))
    if isinstance(test, field_tests.HasText):
        match = models.MatchPhrase(phrase=test.text) if test.phrase else models.MatchText(text=test.text)
        return models.FieldCondition(key=test.path, match=match)
    return models.FieldCondition(key=test.path, is_null=True)
