"""Searches of a server's collection: if possible, one batch finds the candidates of all stages, with all scores.

For each search and stage, the batch has the stage's own query. If a search has two stages, the batch also has a query
of each stage over the candidates of the other stage: a prefetch finds these candidates, and the stage's vector scores
them without the index. The batch also reads the point ``notice`` and looks for watched points (``Along.watched``). If
the server does not permit all this in one batch, nothing is watched, and a second request does the rest: it asks for
missing scores by id, and reads the points that the search will probably need.

The server answers the parts of a batch in parallel, in any order. If it finds no watched point, no such point existed
at some moment after the batch was sent; this may be another moment than that in which the candidates were found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from qdrant_client import models

from twinvec.errors import StoreLimitError
from twinvec_qdrant.stores.candidates import Along, Candidates, Found, Search, gathered, lacking, own_queries
from twinvec_qdrant.stores.points import PAGE, Query, Scored, scored, stored_point
from twinvec_qdrant.stores.server.limits.gaps import gaps
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.limits.search_parts import (
    batches,
    cost,
    crossing_requests,
    looking,
    merged,
    needs_exact,
    reading,
    requests_for,
)
from twinvec_qdrant.stores.server.reading import Reading
from twinvec_qdrant.stores.steps import Steps

_Requests = Sequence[models.QueryRequest]


@dataclass(frozen=True, slots=True)
class _Crossing:
    """The requests by which one stage of a search (at ``row``) scores the candidates that the stage ``other`` finds.

    If the requests find fewer than ``most`` points, the other candidates have the score 0 in this stage.
    """

    row: int
    stage: str
    other: str
    requests: _Requests
    most: int

    def add(self, found: Found, answers: Sequence[Sequence[models.ScoredPoint]]) -> bool:
        """Add the scores of the other stage's candidates; return whether every missing score is 0."""
        scores = {str(each.id): each.score for answer in answers for each in answer}
        # keeps the order of the other stage, which a request by id would have, too
        found[self.stage] |= {
            key: Scored(key, scores[key], point.payload)
            for key, point in found[self.other].items()
            if key not in found[self.stage] and key in scores
        }
        return bool(answers) and (len(scores) < self.most or found[self.other].keys() <= found[self.stage].keys())


class Searching(Reading):
    """The methods of a server's backend that search."""

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        def found(limits: Limits) -> Steps[list[list[Scored]]]:
            asked = self._requested(fitted, limits)
            answers = yield from self._answers(list(chain(*asked)), limits)
            return _merged(fitted, asked, iter(answers))

        fitted = self.run(self._fitted_queries(queries))
        return self.run(self._within(found))

    def watches(self) -> bool:
        """Return whether ``candidates`` looks for watched points (``Along.watched``); see ``Backend``.

        If the server limits the size of a collection, it may refuse points that would be watched. If it limits how many
        points a search compares, the search may compare fewer than the batch asks for.
        """
        limits = self._limits
        if self._local or self._copies > 1 or limits is None:
            return False
        return not limits.bounded and limits.ef is None and limits.oversampling is None

    def candidates(self, searches: Sequence[Search], notice: str, along: Along | None = None) -> Steps[Candidates]:
        if self._local:
            return (yield from super().candidates(searches, notice))
        fitted = iter((yield from self._fitted_queries(own_queries(searches))))
        searches = [replace(search, stages={stage: next(fitted) for stage in search.stages}) for search in searches]
        if along is not None and along.watched is not None:
            ((watched,),) = yield from self._fitted((along.watched,))
            best = yield from self._fitted_queries(along.best)
            along = replace(along, watched=watched, best=best)
        return (yield from self._within(lambda limits: self._candidates(searches, notice, along, limits)))

    def _watching(self, along: Along | None, limits: Limits) -> _Requests:
        """Return the requests that look for watched points and read the best points; none if nothing is watched."""
        if along is None or along.watched is None or not self.watches():
            return ()
        return [looking([along.watched]), *chain(*self._requested(along.best, limits))]

    def _requested(self, queries: Sequence[Query], limits: Limits) -> list[_Requests]:
        """Return, for each query, the requests that together answer it."""
        if not limits.exact and any(map(needs_exact, queries)):
            raise StoreLimitError(
                f"{self.location}: the server permits no exact search (search_allow_exact): search without exact"
            )
        asked: list[_Requests] = [requests_for(query, limits, indexed=not self._local) for query in queries]
        if self._tenants is not None:
            for query, requests in zip(queries, asked, strict=True):
                for request in requests:
                    request.shard_key = self._tenants.selector(query.conditions)
        return asked

    def _answers(self, requests: _Requests, limits: Limits) -> Steps[list[Any]]:
        """Return the points that each request finds, with the points that are missing between two of its pages."""
        answers = yield from self._sent(requests, limits)
        left = list(gaps(requests, answers))
        while left:
            found = yield from self._sent([gap.request(limits) for gap in left], limits)
            for gap, points in zip(left, found, strict=True):
                answers[gap.row] = [*answers[gap.row], *points]
            rests = [gap.without(points) for gap, points in zip(left, found, strict=True)]
            left = [gap for gap in rests if gap is not None]
        return answers

    def _sent(self, requests: _Requests, limits: Limits) -> Steps[list[Any]]:
        """Return the points that each request finds."""
        answers: list[Any] = []
        for batch in batches(requests, limits):
            reads = cost(batch) if limits.reads is not None else 0
            found = yield from self._read("query_batch_points", limits, reads, batch)
            answers += [answer.points for answer in found]
        return answers

    def _candidates(
        self, searches: Sequence[Search], notice: str, along: Along | None, limits: Limits
    ) -> Steps[Candidates]:
        queries = own_queries(searches)
        own = self._requested(queries, limits)
        crossings = list(_crossings(searches, own, self._shards, limits))
        noticing, watching, crossed = _first(
            [reading([notice], None)], self._watching(along, limits), own, [e.requests for e in crossings], limits
        )
        asked = [*noticing, *watching, *chain(*own), *chain(*crossed)]
        answers = iter((yield from self._answers(asked, limits)))
        noticed = {str(point.id): point for point in (next(answers) if noticing else ())}
        none_watched = bool(watching) and not next(answers)
        best = {str(each.id): stored_point(each) for _ in watching[1:] for each in next(answers)}
        candidates = gathered(searches, _merged(queries, own, answers))
        candidates.none_watched = none_watched
        candidates.read.update(best)
        complete = {
            (each.row, each.stage)
            for each, requests in zip(crossings, crossed, strict=False)
            if each.add(candidates.found[each.row], [next(answers) for _ in requests])
        }
        unknown = [] if noticing else [notice]
        noticed |= yield from self._second(searches, candidates, complete, unknown, along, limits)
        candidates.notice = noticed[notice].payload if notice in noticed else None
        return candidates

    def _second(
        self,
        searches: Sequence[Search],
        candidates: Candidates,
        complete: Collection[tuple[int, str]],
        unknown: list[str],
        along: Along | None,
        limits: Limits,
    ) -> Steps[dict[str, Any]]:
        """Ask for missing scores, read the ``unknown`` points and those of ``along``, and return these points by id."""
        missing = lacking(searches, candidates, complete)
        if not missing and not unknown:
            return {}
        ids = [*unknown, *(along.ids(candidates) if along else ())]
        vector = along.vector if along else None
        queries = [query for _, query in missing]
        asked = self._requested(queries, limits)
        requests = list(chain(*asked))
        read = [reading(ids, vector)] if ids else []
        together = bool(missing and read) and limits.permits_ids(len(ids)) and _are_one([*requests, *read], limits)
        answers = iter((yield from self._answers([*requests, *read] if together else requests, limits)))
        for (scores, _), answer in zip(missing, _merged(queries, asked, answers), strict=True):
            scores.update((each.id, each) for each in answer)
        if not together and not unknown:
            return {}
        points = next(answers) if together else (yield from self._by_id(ids, PAGE, True, vector))
        found = {str(point.id): point for point in points}
        candidates.read.update((key, stored_point(found[key], vector) if key in found else None) for key in ids)
        return found


def _crossings(
    searches: Sequence[Search], own: Sequence[_Requests], shards: int, limits: Limits
) -> Iterator[_Crossing]:
    left = iter(own)
    for row, search in enumerate(searches):
        sources = {stage: next(left) for stage in search.stages}
        for stage, query in search.stages.items():
            for other in search.stages.keys() - {stage}:
                requests = crossing_requests(query, sources[other], shards, limits)
                sure = len(requests) == 1 or limits.exact
                yield _Crossing(
                    row, stage, other, requests, sum(each.limit or 0 for each in requests[: None if sure else 1])
                )


def _first(
    noticing: _Requests, watching: _Requests, own: Sequence[_Requests], crossed: Sequence[_Requests], limits: Limits
) -> tuple[_Requests, _Requests, Sequence[_Requests]]:
    """Return the requests that join ``own`` in the first batch: as many kinds as the server permits in one batch."""
    if not all(crossed):
        crossed = ()
    choices: list[tuple[_Requests, _Requests, Sequence[_Requests]]] = [
        (noticing, watching, crossed),
        (noticing, (), crossed),
        ((), (), crossed),
        (noticing, (), ()),
    ]
    for first, second, third in choices:
        if _are_one([*first, *second, *chain(*own), *chain(*third)], limits):
            return first, second, third
    return (), (), ()


def _are_one(requests: _Requests, limits: Limits) -> bool:
    return sum(1 for _ in batches(requests, limits)) == 1


def _merged(queries: Sequence[Query], asked: Sequence[_Requests], answers: Iterator[Any]) -> list[list[Scored]]:
    """Return the points that each query finds, from the answers to its requests."""
    return [
        merged([scored(next(answers)) for _ in requests], query.limit)
        for query, requests in zip(queries, asked, strict=True)
    ]
