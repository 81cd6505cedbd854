"""Searches of a server, cut to what it permits; the answers are put together again.

A search for more results than one request may ask for becomes several, one after another in rank (``offset``). Where
exact search is forbidden, points that are named by their ids are still compared: the server compares so few
without its index. Token states have no index, and are then compared after a prefetch by id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from qdrant_client import models

from twinvec_qdrant.stores.conditions import IdIs
from twinvec_qdrant.stores.points import SPARSE, Query, Scored, pages
from twinvec_qdrant.stores.server.limits.narrowing import conditions_of, narrowed
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.values import client_filter, client_sparse

# Document frequencies of the points that there are. Without a filter, those of a server count removed points until its
# optimizer has run. Servers before 1.19 ignore the field.
_LIVE_FREQUENCIES = models.SearchParams(idf=models.IdfCorpusParams(corpus=models.Filter()))

_TERMS = 64  # the server's unit of cost for a sparse vector


def needs_exact(query: Query) -> bool:
    """Return whether the query compares all points exactly, which a server may forbid."""
    return query.exact and _ids(query) is None and not isinstance(query.vector, tuple)


def requests_for(query: Query, limits: Limits, *, indexed: bool) -> list[models.QueryRequest]:
    """Return the requests that answer one query; ``indexed`` is False for the client's local mode, without indexes."""
    by_id = _ids(query) is not None
    params = _params(query, limits) if indexed else None
    requests = []
    for part in _by_ids(query, limits.page(query.limit)):
        for wanted in narrowed(client_filter(part.conditions), limits):
            size = limits.page(part.limit)
            for start in range(0, part.limit, size):
                place = (start, min(size, part.limit - start))
                requests.append(_request(part, wanted, params, place, prefetched=by_id and not limits.exact))
    return requests


def client_request(query: Query) -> models.QueryRequest:
    """Return the one request that answers a query on a server without limits."""
    return _request(
        query, client_filter(query.conditions), _params(query, Limits()), (0, query.limit), prefetched=False
    )


def fits(requests: Sequence[models.QueryRequest], limits: Limits) -> bool:
    """Return whether the server permits this batch, with its prefetches."""
    if limits.searches is not None and len(requests) > limits.searches:
        return False
    if limits.budget is not None and cost(requests) > limits.budget:
        return False
    parts = [part for request in requests for part in _prefetches(request)]
    return all(_fits(each, limits) for each in requests) and all(_fits(each, limits) for each in parts)


def batches(requests: Iterable[models.QueryRequest], limits: Limits) -> Iterator[list[models.QueryRequest]]:
    """Cut requests, in order, into batches of the size and the cost that the server permits."""
    batch: list[models.QueryRequest] = []
    for request in requests:
        dear = limits.budget is not None and cost([*batch, request]) > limits.budget
        if batch and (dear or (limits.searches is not None and len(batch) == limits.searches)):
            yield batch
            batch = []
        batch.append(request)
    if batch:
        yield batch


def cost(requests: Sequence[models.QueryRequest]) -> int:
    """Return what the server counts for these searches against its limit of reads."""
    return sum(_cost(each) for each in requests)


def merged(answers: Sequence[Sequence[Scored]], limit: int) -> list[Scored]:
    """Return the best of several answers to parts of one query, best first."""
    if len(answers) == 1:
        return list(answers[0])
    best: dict[str, Scored] = {}
    for each in (point for answer in answers for point in answer):
        if each.id not in best or each.score > best[each.id].score:
            best[each.id] = each
    return sorted(best.values(), key=lambda each: -each.score)[:limit]


def _request(
    query: Query,
    filter: models.Filter | None,
    params: models.SearchParams | None,
    place: tuple[int, int],
    *,
    prefetched: bool,
) -> models.QueryRequest:
    sparse = isinstance(query.vector, tuple)
    start, size = place
    prefetched = prefetched and not isinstance(query.vector, tuple) and query.vector.ndim == 2  # token states
    return models.QueryRequest(
        prefetch=models.Prefetch(filter=filter, limit=size) if prefetched else None,
        query=client_sparse(query.vector) if isinstance(query.vector, tuple) else query.vector.tolist(),
        using=SPARSE if sparse else query.name,
        filter=None if prefetched else filter,
        limit=size,
        offset=start or None,
        params=params,
        with_payload=list(query.fields),
        with_vector=False,
    )


def _compared(query: object) -> int:
    """Return what the server counts for the vectors that a query compares with."""
    if isinstance(query, models.SparseVector):
        return max(1, math.ceil(len(query.indices) / _TERMS))
    if isinstance(query, list) and query and isinstance(query[0], list):
        return len(query)
    return 1


def _cost(request: models.QueryRequest) -> int:
    below = sum(1 + _compared(each.query) + conditions_of(each.filter) for each in _prefetches(request))
    return _compared(request.query) + conditions_of(request.filter) + below


def _prefetches(request: models.QueryRequest) -> list[models.Prefetch]:
    found = request.prefetch or []
    return found if isinstance(found, list) else [found]


def _fits(request: models.QueryRequest | models.Prefetch, limits: Limits) -> bool:
    if limits.results is not None and (request.limit or 0) > limits.results:
        return False
    if narrowed(request.filter, limits) != [request.filter]:
        return False
    params = request.params
    if params is None:
        return True
    copies = params.quantization
    dear = limits.ef is not None and (params.hnsw_ef or 0) > limits.ef
    dear |= limits.oversampling is not None and copies is not None and (copies.oversampling or 0) > limits.oversampling
    return not dear and (limits.exact or not params.exact)


def _params(query: Query, limits: Limits) -> models.SearchParams | None:
    settings = query.index
    if isinstance(query.vector, tuple):
        return _LIVE_FREQUENCIES
    if query.exact and limits.exact:
        return models.SearchParams(exact=True)
    if query.exact:
        return models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
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
