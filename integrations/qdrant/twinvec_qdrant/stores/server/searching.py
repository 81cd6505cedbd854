"""The first request of a search on a server: one batch for the candidates of every stage and all their scores.

For each search and stage, the batch holds the stage's own query. Where a search has two stages, it also holds the query
of each over the candidates of the other: these are prefetched, and scored by the stage's vector without the index.

On a collection of several shards, each shard prefetches and scores its own candidates, and the server keeps the best of
all. The limit of these queries therefore grows with the shards. Scores that are still missing are asked for by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from qdrant_client import models

from twinvec_qdrant.stores.points import Query, Scored, scored
from twinvec_qdrant.stores.searches import Candidates, Search, gathered, own_queries
from twinvec_qdrant.stores.server.limits.searches import client_request


class _Request(models.QueryRequest):
    """A request that the client sends as it is, without a copy of every number of the vector."""

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self


def search_batch(searches: Sequence[Search], notice: str, shards: int) -> list[models.QueryRequest]:
    """Return the requests of one batch; the first one reads the point ``notice``."""
    own = [client_request(query) for query in own_queries(searches)]
    across = [_scored_across(query, other, shards) for query, other in crossings(searches)]
    noticed = models.Filter(must=[models.HasIdCondition(has_id=[notice])])
    return [models.QueryRequest(filter=noticed, limit=1, with_payload=True, with_vector=False), *own, *across]


def sendable(batch: Sequence[models.QueryRequest]) -> list[models.QueryRequest]:
    """Return the requests of a batch without a check of every number of their vectors."""
    sent: list[models.QueryRequest] = []
    for request in batch:
        given = {name: getattr(request, name) for name in request.model_fields_set}
        if isinstance(request.query, list | models.SparseVector):
            given["query"] = models.NearestQuery.model_construct(nearest=request.query)
        sent.append(_Request.model_construct(**given))
    return sent


def crossings(searches: Sequence[Search]) -> list[tuple[Query, Query]]:
    """Return each query with the query whose candidates it scores."""
    return [
        (query, other)
        for search in searches
        for stage, query in search.stages.items()
        for name, other in search.stages.items()
        if name != stage
    ]


def candidates_of(
    searches: Sequence[Search], answers: Sequence[Sequence[models.ScoredPoint]], shards: int
) -> tuple[Candidates, bool]:
    """Return the candidates from the answers to ``search_batch``, and whether all have all their scores."""
    noticed, end = answers[0], 1 + len(own_queries(searches))
    candidates = gathered(searches, [scored(each) for each in answers[1:end]])
    candidates.notice = noticed[0].payload if noticed else None
    across = iter(answers[end:])
    complete = True
    for search, found in zip(searches, candidates.found, strict=True):
        for stage in search.stages:
            for other in search.stages.keys() - {stage}:
                answer = next(across)
                missing = found[other].keys() - found[stage].keys()
                scores = {str(each.id): each.score for each in answer}
                # in the order of the other stage, as if asked for by id
                found[stage] |= {
                    key: Scored(key, scores[key], found[other][key].payload)
                    for key in found[other]
                    if key in missing and key in scores
                }
                cut = len(answer) >= search.stages[other].limit * shards
                complete &= not (cut and missing - scores.keys())
    return candidates, complete


def _scored_across(query: Query, other: Query, shards: int) -> models.QueryRequest:
    """Return the request that scores the candidates of ``other`` by ``query``."""
    source = client_request(other)
    prefetch = models.Prefetch(
        query=source.query, using=source.using, filter=source.filter, params=source.params, limit=source.limit
    )
    # several shards might cut an approximate search (undersampling); one compares so few points without its index
    compared = replace(query, conditions=(), fields=(), exact=shards > 1, limit=other.limit * shards)
    changes: dict[str, Any] = {"prefetch": [prefetch]}
    if shards == 1 and not isinstance(query.vector, tuple):
        changes["params"] = models.SearchParams(quantization=models.QuantizationSearchParams(ignore=True))
    return client_request(compared).model_copy(update=changes)
