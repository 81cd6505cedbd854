"""Points, vectors and conditions as objects of Qdrant's client.

To save bytes of JSON, each number of a dense vector is sent with only as many digits as identify it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
from qdrant_client import models

from twinvec.arrays import FloatArray
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores import conditions as tests
from twinvec_qdrant.stores.points import SPARSE, Point, states_name

_DIGITS = 9  # significant digits that identify every float32
_MICROSECOND = timedelta(microseconds=1)
_POWERS = 10.0 ** np.arange(23)  # powers that float64 represents exactly


def client_points(
    points: Sequence[Point], filler: Mapping[str, Any] = MappingProxyType({})
) -> list[models.PointStruct]:
    """Return points in the client's form; the client does not check every number and every value of them.

    ``filler`` is added to the payload of points without vectors.
    """
    return [
        models.PointStruct.model_construct(
            id=wire_id(point.id), vector=vectors, payload={**point.payload} if vectors else {**filler, **point.payload}
        )
        for point, vectors in zip(points, client_vectors(points), strict=True)
    ]


def client_vectors(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Return the vectors of each point in the client's form, by name."""
    dense = iter(numbers([point.dense for point in points if point.dense is not None]))
    of_points = []
    for point in points:
        vectors: dict[str, Any] = {}
        if point.dense is not None:
            vectors[point.vector] = next(dense)
        if point.states is not None:
            vectors[states_name(point.vector)] = point.states.tolist()
        if point.sparse is not None:
            vectors[SPARSE] = client_sparse(point.sparse)
        of_points.append(vectors)
    return of_points


def numbers(vectors: Sequence[FloatArray]) -> list[list[float]]:
    """Return the numbers of each vector (shape (n,), float32) with few digits, without a change of the float32 values.

    Without this, JSON would have all digits of a float64. A server reads the same float32 from both forms.
    """
    if not vectors:
        return []
    exact = np.concatenate(vectors).astype(np.float64)
    sizes = np.maximum(np.abs(exact), 1e-300)
    scales = _POWERS[np.clip(_DIGITS - 1 - np.floor(np.log10(sizes)), 0, 22).astype(np.intp)]
    short = np.rint(exact * scales) / scales
    listed = np.where(short.astype(np.float32) == exact, short, exact).tolist()
    return [listed[start:end] for start, end in pairwise(accumulate(map(len, vectors), initial=0))]


def wire_id(key: str) -> int | str:
    """Return a point's id in the server's form: an integer if the id consists of digits."""
    return int(key) if key.isdecimal() else key


def conditional_update(record: models.PointStruct, revision: str, shard_key: str | None) -> models.UpsertOperation:
    """Return an update that replaces the stored record, at this shard key, only if it has this revision."""
    stored = models.Filter(must=[models.FieldCondition(key="revision", match=models.MatchValue(value=revision))])
    return models.UpsertOperation(
        upsert=models.PointsList(
            points=[record], shard_key=shard_key, update_filter=stored, update_mode=models.UpdateMode.UPDATE_ONLY
        )
    )


def fields_update(point: Point) -> models.SetPayloadOperation:
    """Return an update that sets payload fields of a stored point; the client does not check every value."""
    change = models.SetPayload.model_construct(payload=dict(point.payload), points=[wire_id(point.id)])
    return models.SetPayloadOperation.model_construct(set_payload=change)


def client_sparse(vector: SparseVector) -> models.SparseVector:
    """Return a sparse vector in the client's form; the client does not check every number."""
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
    """Return the client's settings for quantised copies of vectors; None for no quantisation."""
    if settings.quantization == "int8":
        int8 = models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        return models.ScalarQuantization(scalar=int8)
    if settings.quantization == "turbo":
        turbo = models.TurboQuantQuantizationConfig(bits=models.TurboQuantBitSize.BITS4, always_ram=True)
        return models.TurboQuantization(turbo=turbo)
    if settings.quantization == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def client_filter(conditions: tests.Conditions) -> models.Filter | None:
    """Return a filter that requires all conditions; None if the list is empty."""
    return tests.translated(conditions, models.Filter, _condition)


def _condition(test: tests.PointTest) -> models.Condition:
    if isinstance(test, tests.IdIs):
        return models.HasIdCondition(has_id=list(map(wire_id, test.ids)))
    if isinstance(test, tests.HasVector):
        return models.HasVectorCondition(has_vector=test.name)
    if isinstance(test, tests.IsEmpty):
        return models.IsEmptyCondition(is_empty=models.PayloadField(key=test.path))
    if isinstance(test, tests.AnyText):
        return models.FieldCondition(key=test.path, match=models.MatchAny(any=list(test.texts)))
    if isinstance(test, tests.Exactly):
        return models.FieldCondition(key=test.path, match=models.MatchValue(value=test.value))
    if isinstance(test, tests.Within):
        return models.FieldCondition(key=test.path, range=models.Range(**dict(test.bounds)))
    if isinstance(test, tests.WithinDates):
        return models.FieldCondition(key=test.path, range=_dates(test.bounds))
    if isinstance(test, tests.HasText):
        match = models.MatchPhrase(phrase=test.text) if test.phrase else models.MatchText(text=test.text)
        return models.FieldCondition(key=test.path, match=match)
    return models.FieldCondition(key=test.path, is_null=True)


def _dates(bounds: Iterable[tuple[str, datetime]]) -> models.DatetimeRange:
    """Return a range that compares dates in whole microseconds.

    Without an index of dates, a server also compares the digits after the microseconds, so that a date may come after a
    bound that it equals. Each such bound is therefore replaced by the next microsecond. Only a bound in the last
    microsecond of a minute stays, because a leap second may come before the next microsecond.
    """
    sent: dict[str, datetime] = {}
    for name, moment in bounds:
        if name in ("gt", "lte") and (moment.second, moment.microsecond) != (59, 999_999):
            name, moment = "gte" if name == "gt" else "lt", moment + _MICROSECOND
        tighter = max if name in ("gt", "gte") else min
        sent[name] = tighter(moment, sent.get(name, moment))
    return models.DatetimeRange(**sent)
