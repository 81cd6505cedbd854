"""Searches split into requests that a server permits, and the merging of their answers.

A search for too many results becomes several requests, for consecutive ranks (``offset``). Another request follows if
points of equal score are missing between two of these pages (``gaps``). If exact search is forbidden, a filter by id
can still get points scored, because the server compares a few points without its index. Token states have no index: a
prefetch by id selects the points, and then their states are compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self

from qdrant_client import models

from twinvec.arrays import FloatArray
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.stores.conditions import Conditions, IdIs
from twinvec_qdrant.stores.points import SPARSE, Query, Scored, pages, payload_selector, vector_selector
from twinvec_qdrant.stores.server.limits.narrowing import conditions_of, narrowed
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.values import client_filter, client_sparse, numbers

# Document frequencies of live points only: without a filter, a server also counts removed points until its optimizer
# has run. Servers before 1.19 ignore the field.
_LIVE_FREQUENCIES = models.SearchParams(idf=models.IdfCorpusParams(corpus=models.Filter()))
_FULL_VECTORS = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))

_TERMS = 64  # terms of a sparse vector for which the server counts a cost of 1


class _Request(models.QueryRequest):
    """A request that the client sends as it is, without a copy of every number of the vector."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


# The client looks a class up by its name, and takes a quarter of a second to analyse a class with an unknown name.
_Request.__name__ = models.QueryRequest.__name__


def needs_exact(query: Query) -> bool:
    """Return whether the query compares all points exactly, which a server may forbid."""
    return query.exact and _ids(query) is None and not isinstance(query.vector, tuple)


def requests_for(query: Query, limits: Limits, *, indexed: bool) -> list[models.QueryRequest]:
    """Return the requests that answer one query; ``indexed`` is False for the client's local mode without indexes."""
    params = _params(query, limits) if indexed else None
    states = not isinstance(query.vector, tuple) and query.vector.ndim == 2
    prefetched = states and not limits.exact and _ids(query) is not None
    requests = []
    for part in _by_ids(query, limits.page(query.limit)):
        for wanted in narrowed(client_filter(part.conditions), limits):
            for start, size in _places(part.limit, limits):
                source = models.Prefetch(filter=wanted, limit=size) if prefetched else None
                requests.append(_request(part, None if prefetched else wanted, params, (start, size), source))
    return requests


def crossing_requests(
    query: Query, sources: Sequence[models.QueryRequest], shards: int, limits: Limits
) -> list[models.QueryRequest]:
    """Return requests that score, by ``query``, the points of the only request in ``sources``; [] for several sources.

    Every shard prefetches and scores its own candidates. The requests therefore ask for the candidates of all shards,
    in pages (``offset``) if the server limits the results. If there are several pages, the server asks each shard for a
    share only, unless the search is exact.
    """
    if len(sources) != 1:
        return []
    (source,) = sources
    prefetch = models.Prefetch.model_construct(
        query=source.query, using=source.using, filter=source.filter, params=source.params, limit=source.limit
    )
    places = list(_places((source.limit or 0) * shards, limits))
    params = _LIVE_FREQUENCIES if isinstance(query.vector, tuple) else _FULL_VECTORS
    if len(places) > 1:
        params = params.model_copy(update={"exact": limits.exact})
    compared = replace(query, fields=())
    requests = [_request(compared, None, params, place, prefetch) for place in places]
    for each in requests if source.shard_key is not None else ():
        each.shard_key = source.shard_key
    return requests


def reading(ids: Sequence[str], vector: str | None) -> models.QueryRequest:
    """Return the request that reads the points with these ids and, if ``vector`` is set, their vector of this name."""
    return _Request.model_construct(
        filter=client_filter([IdIs(tuple(ids))]), limit=len(ids), with_payload=True, with_vector=vector_selector(vector)
    )


def looking(conditions: Conditions) -> models.QueryRequest:
    """Return a request for any one point that satisfies the conditions."""
    return _Request.model_construct(filter=client_filter(conditions), limit=1, with_payload=False, with_vector=False)


def batches(requests: Iterable[models.QueryRequest], limits: Limits) -> Iterator[list[models.QueryRequest]]:
    """Cut requests, in order, into batches of the size and the cost that the server permits."""
    batch: list[models.QueryRequest] = []
    spent = 0
    for request in requests:
        price = 0 if limits.budget is None else cost([request])
        is_dear = limits.budget is not None and spent + price > limits.budget
        if batch and (is_dear or len(batch) == limits.searches):
            yield batch
            batch, spent = [], 0
        batch.append(request)
        spent += price
    if batch:
        yield batch


def cost(requests: Sequence[models.QueryRequest]) -> int:
    """Return what these searches cost under the server's rate limit for reads."""
    return sum(_cost(each) for each in requests)


def merged(answers: Sequence[Sequence[Scored]], limit: int) -> list[Scored]:
    """Return the best points from the answers to the parts of one query, best first."""
    if len(answers) == 1:
        return list(answers[0])
    best: dict[str, Scored] = {}
    for each in (point for answer in answers for point in answer):
        if each.id not in best or each.score > best[each.id].score:
            best[each.id] = each
    return sorted(best.values(), key=lambda each: -each.score)[:limit]


def _places(limit: int, limits: Limits) -> Iterator[tuple[int, int]]:
    """Yield the offset and the size of each page of the results."""
    size = limits.page(limit)
    return ((start, min(size, limit - start)) for start in range(0, limit, size))


def _request(
    query: Query,
    filter: models.Filter | None,
    params: models.SearchParams | None,
    place: tuple[int, int],
    prefetch: models.Prefetch | None,
) -> models.QueryRequest:
    """Return a request in the client's form; the client does not check every number of the vector."""
    start, size = place
    sparse = isinstance(query.vector, tuple)
    return _Request.model_construct(
        prefetch=prefetch,
        query=models.NearestQuery.model_construct(nearest=_client_vector(query.vector)),
        using=SPARSE if sparse else query.name,
        filter=filter,
        limit=size,
        offset=start or None,
        params=params,
        with_payload=payload_selector(query.fields),
        with_vector=False,
    )


def _client_vector(vector: FloatArray | SparseVector) -> Any:
    """Return the vector of a query in the client's form."""
    if isinstance(vector, tuple):
        return client_sparse(vector)
    return numbers(list(vector)) if vector.ndim == 2 else numbers([vector])[0]


def _cost(request: models.QueryRequest | models.Prefetch) -> int:
    prefetch = request.prefetch
    below = 1 + _compared(prefetch) + conditions_of(prefetch.filter) if isinstance(prefetch, models.Prefetch) else 0
    return _compared(request) + conditions_of(request.filter) + below


def _compared(request: models.QueryRequest | models.Prefetch) -> int:
    """Return the cost that the server's rate limit counts for the vectors of a query."""
    vector = request.query.nearest if isinstance(request.query, models.NearestQuery) else None
    if isinstance(vector, models.SparseVector):
        return max(1, math.ceil(len(vector.indices) / _TERMS))
    if isinstance(vector, list) and vector and isinstance(vector[0], list):
        return len(vector)
    return 1


def _params(query: Query, limits: Limits) -> models.SearchParams | None:
    settings = query.index
    if isinstance(query.vector, tuple):
        return _LIVE_FREQUENCIES
    if query.exact:
        return models.SearchParams(exact=True) if limits.exact else _FULL_VECTORS
    ef = settings.ef if settings.ef is None or limits.ef is None else min(settings.ef, limits.ef)
    if settings.quantization == "none":
        return models.SearchParams(hnsw_ef=ef) if ef else None
    factor = settings.oversampling_factor
    factor = factor if limits.oversampling is None else min(factor, limits.oversampling)
    quantization = models.QuantizationSearchParams(rescore=True, oversampling=factor)
    return models.SearchParams(hnsw_ef=ef, quantization=quantization)


def _ids(query: Query) -> IdIs | None:
    return next((each for each in query.conditions if isinstance(each, IdIs)), None)


def _by_ids(query: Query, most: int) -> list[Query]:
    """Split a query for points by id into queries of at most ``most`` ids; return any other query as it is."""
    for row, condition in enumerate(query.conditions):
        if isinstance(condition, IdIs) and most < len(condition.ids) <= query.limit:
            others = (*query.conditions[:row], *query.conditions[row + 1 :])
            cut = (IdIs(tuple(page)) for page in pages(condition.ids, most))
            return [replace(query, conditions=(*others, ids), limit=len(ids.ids)) for ids in cut]
    return [query]
