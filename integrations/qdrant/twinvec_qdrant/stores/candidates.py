"""Candidates of a search: the best points of all stages, with their scores in every stage."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twinvec_qdrant.stores.conditions import IdIs, StoreCondition
from twinvec_qdrant.stores.points import Point, Query, Scored

Found = dict[str, dict[str, Scored]]
"""Scored points of one query: stage ("dense" or "sparse") -> point id -> scored point."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search: a query for each stage, by the stage's name.

    The best points of each stage are the candidates. Each candidate gets a score from every stage. Points whose ids
    are in ``known`` are left out.
    """

    stages: Mapping[str, Query]
    known: frozenset[str] = frozenset()


@dataclass(slots=True)
class Candidates:
    """The results of several searches in a store.

    Attributes:
        found: For each search, the scores of its candidates by stage. A stage may lack candidates that it scores 0.
        more: For each search, whether a stage may find further points.
        notice: Payload of the extra point that ``Backend.candidates`` reads; None if that point does not exist.
        read: Points that were read in addition, by id; None for an id without a point.
        none_watched: Whether the server has found no point that satisfies ``Along.watched``.
    """

    found: list[Found] = field(default_factory=list)
    more: list[bool] = field(default_factory=list)
    notice: Mapping[str, Any] | None = None
    read: dict[str, Point | None] = field(default_factory=dict)
    none_watched: bool = False


@dataclass(frozen=True, slots=True)
class Along:
    """Further points that a store may read together with candidates.

    Attributes:
        ids: Returns the ids of the points to read if the candidates need a second request.
        vector: Name of the dense vector to read with these points.
        watched: A condition. The first request of a store that ``watches`` also looks for a point that satisfies it.
        best: Queries. The first request of a store that ``watches`` also reads the points that they find.
    """

    ids: Callable[[Candidates], Iterable[str]]
    vector: str | None
    watched: StoreCondition | None = None
    best: Sequence[Query] = ()


def gathered(searches: Sequence[Search], answers: Sequence[Sequence[Scored]]) -> Candidates:
    """Return the candidates of the searches; ``answers`` has the points that each of their ``own_queries`` found."""
    candidates, left = Candidates(), iter(answers)
    for search in searches:
        found: Found = {}
        more = False
        for stage, query in search.stages.items():
            answer = next(left)
            more |= len(answer) >= query.limit
            found[stage] = {each.id: each for each in answer if each.id not in search.known}
        candidates.found.append(found)
        candidates.more.append(more)
    return candidates


def own_queries(searches: Sequence[Search]) -> list[Query]:
    """Return the queries of all stages of all searches."""
    return [query for search in searches for query in search.stages.values()]


def lacking(
    searches: Sequence[Search], candidates: Candidates, complete: Collection[tuple[int, str]] = ()
) -> list[tuple[dict[str, Scored], Query]]:
    """Return the queries for missing scores, each with the dict that the scores are to be added to.

    A score is missing if only another stage has found the candidate. The pair (row of the search, stage) is in
    ``complete`` if all missing scores of this stage are 0.
    """
    queries = []
    for row, (search, found) in enumerate(zip(searches, candidates.found, strict=True)):
        for stage, query in search.stages.items():
            ids = tuple(key for other in found if other != stage for key in found[other] if key not in found[stage])
            if ids and (row, stage) not in complete:
                queries.append((found[stage], replace(query, limit=len(ids), conditions=(IdIs(ids),), exact=True)))
    return queries


def find_candidates(
    searches: Sequence[Search], search: Callable[[Sequence[Query]], Sequence[Sequence[Scored]]]
) -> Candidates:
    """Return the candidates by two calls of ``search``: for the best points of each stage, then for missing scores."""
    queries = own_queries(searches)
    candidates = gathered(searches, search(queries) if queries else [])
    if missing := lacking(searches, candidates):
        for (scores, _), answer in zip(missing, search([query for _, query in missing]), strict=True):
            scores.update((each.id, each) for each in answer)
    return candidates
