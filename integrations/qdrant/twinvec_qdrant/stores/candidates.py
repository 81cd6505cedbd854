"""The requests of a search: the candidates of all stages, and unless these tell all, the points behind the best."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twinvec_qdrant.stores.conditions import IdIs, StoreCondition
from twinvec_qdrant.stores.points import Point, Query, Scored

Found = dict[str, dict[str, Scored]]
"""What each stage ("dense", "sparse") has scored for one query: stage -> point id -> scored point."""


@dataclass(frozen=True, slots=True)
class Search:
    """One search: a query for each stage, by the stage's name.

    The best points of each stage are candidates, and get a score of every stage. Points that are ``known`` are left
    out.
    """

    stages: Mapping[str, Query]
    known: frozenset[str] = frozenset()


@dataclass(slots=True)
class Candidates:
    """What stores return for several searches.

    Attributes:
        found: For each search the scores of its candidates, by stage; a stage may lack those that it scores 0.
        more: For each search whether a stage may have more.
        notice: Payload of the extra point that the same request reads; None if that point does not exist.
        read: Further points by id that a request has read along; None for those that do not exist.
        none_watched: Whether the request of the candidates says that no point is as ``Along.watched``.
    """

    found: list[Found] = field(default_factory=list)
    more: list[bool] = field(default_factory=list)
    notice: Mapping[str, Any] | None = None
    read: dict[str, Point | None] = field(default_factory=dict)
    none_watched: bool = False


@dataclass(frozen=True, slots=True)
class Along:
    """What a store may read together with candidates.

    Attributes:
        ids: The points to read if the candidates need a second request.
        vector: The dense vector to read with them.
        watched: What the request of the candidates looks for, in a store that ``watches``.
        best: Queries whose points such a store then reads by the same request.
    """

    ids: Callable[[Candidates], Iterable[str]]
    vector: str | None
    watched: StoreCondition | None = None
    best: Sequence[Query] = ()


def gathered(searches: Sequence[Search], answers: Sequence[Sequence[Scored]]) -> Candidates:
    """Return the candidates from the answers to ``own_queries``."""
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
    """Return the scores of each stage that lacks some of the candidates of others, and the query for those by id.

    A stage is ``complete`` in the search of a row if what it lacks has the score 0.
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
    """Return the candidates by two calls of a store's ``search``: the best of each stage, then what it lacks by id."""
    queries = own_queries(searches)
    candidates = gathered(searches, search(queries) if queries else [])
    if missing := lacking(searches, candidates):
        for (scores, _), answer in zip(missing, search([query for _, query in missing]), strict=True):
            scores.update((each.id, each) for each in answer)
    return candidates
