"""The first request of a search on a server: one batch for the candidates of every stage and all their scores.

For each search and stage, the batch holds the stage's own query. Where a search has two stages, it also holds the query
of each over the candidates of the other: these are prefetched, and scored by the stage's vector without the index.

On a collection of several shards, each shard prefetches and scores its own candidates, and the server keeps the best of
all. The limit of these queries therefore grows with the shards. What is missing all the same is asked for by id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from qdrant_client import models

from twinvec_qdrant.stores.points import Query, Scored
from twinvec_qdrant.stores.searches import Candidates, Search, gathered, own_queries
from twinvec_qdrant.stores.server.limits.searches import client_request


def search_batch(searches: Sequence[Search], notice: str, shards: int) -> list[models.QueryRequest]:
    """Return the requests of one batch; the first one reads the point ``notice``."""
    own = [client_request(query) for query in own_queries(searches)]
    across = [_scored_across(query, other, shards) for query, other in crossings(searches)]
    noticed = models.Filter(must=[models.HasIdCondition(has_id=[notice])])
    return [models.QueryRequest(filter=noticed, limit=1, with_payload=True, with_vector=False), *own, *across]


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
    searches: Sequence[Search], answers: Sequence[Sequence[Scored]], shards: int
) -> tuple[Candidates, bool]:
    """Return the candidates from the answers to ``search_batch``, and whether all have all their scores."""
    noticed, answers = answers[0], answers[1:]
    candidates = gathered(searches, answers)
    candidates.notice = noticed[0].payload if noticed else None
    across = iter(answers[len(own_queries(searches)) :])
    complete = True
    for search, found in zip(searches, candidates.found, strict=True):
        for stage in search.stages:
            for other in search.stages.keys() - {stage}:
                answer = next(across)
                missing = found[other].keys() - found[stage].keys()
                scores = {each.id: each.score for each in answer}
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
    exact = replace(query, conditions=(), fields=(), exact=True, limit=other.limit * shards)
    return client_request(exact).model_copy(update={"prefetch": [prefetch]})
