"""Find points that a search in pages has missed, and ask for them.

A server returns points of equal score in any order. One of these points may therefore be on two pages, and another one
on neither. A further request then asks for the missing points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qdrant_client import models

from twinvec_qdrant.stores.server.limits.narrowing import excluding
from twinvec_qdrant.stores.server.limits.permitted import Limits

_ROUNDING = 1e-6  # largest difference of a score between two runs of one search


@dataclass(frozen=True, slots=True)
class Gap:
    """Points of one score that are missing between the pages of a search.

    Attributes:
        row: Index of a request whose page has a point of this score for the second time.
        page: The request for this page.
        start: First rank of the score.
        size: Number of results that a page may have.
        known: Ids of the points of this score that were found.
        missing: Number of missing points.
    """

    row: int
    page: models.QueryRequest
    start: int
    size: int
    known: Sequence[Any]
    missing: int

    def request(self, limits: Limits) -> models.QueryRequest:
        """Return a request for the missing points.

        The request excludes the known points. If the limits permit no such filter, the request is for the page that
        begins at the first rank of the score.
        """
        update: dict[str, Any] = {"offset": self.start or None, "limit": self.size}
        wanted = excluding(self.page.filter, self.known, limits)
        if wanted is not None:
            update |= {"filter": wanted, "limit": min(self.missing, self.size)}
        return self.page.model_copy(update=update)

    def without(self, points: Sequence[models.ScoredPoint]) -> Gap | None:
        """Return the gap that is left after these points; None if no point is missing, or if none of these is new."""
        known = list(dict.fromkeys([*self.known, *(point.id for point in points)]))
        missing = self.missing - (len(known) - len(self.known))
        return replace(self, known=known, missing=missing) if 0 < missing < self.missing else None


def gaps(requests: Sequence[models.QueryRequest], answers: Sequence[Sequence[models.ScoredPoint]]) -> Iterator[Gap]:
    """Yield the gaps between the pages of each search."""
    first = 0
    for row in range(1, len(requests) + 1):
        if row == len(requests) or requests[row].offset is None:
            if requests[first].prefetch is None:
                yield from _gaps_between(range(first, row), requests, answers)
            first = row


def _gaps_between(
    rows: Sequence[int], requests: Sequence[models.QueryRequest], answers: Sequence[Sequence[models.ScoredPoint]]
) -> Iterator[Gap]:
    """Yield the gaps between the pages of one search."""
    ranked: list[models.ScoredPoint] = []
    seen: set[Any] = set()
    twice: dict[int, list[int]] = {}  # first rank of a score -> rows of the points that come again
    for row in rows:
        again = [point.score for point in answers[row] if point.id in seen]
        if again:
            start = next((rank for rank, each in enumerate(ranked) if each.score <= max(again) + _ROUNDING), None)
            if start is not None:  # it is None if a writer has changed the scores between the pages
                twice.setdefault(start, []).extend([row] * len(again))
        ranked += answers[row]
        seen.update(point.id for point in answers[row])
    for start, found in twice.items():
        score = ranked[start].score
        known = dict.fromkeys(point.id for point in ranked if abs(point.score - score) <= 2 * _ROUNDING)
        yield Gap(found[0], requests[found[0]], start, requests[rows[0]].limit or 0, list(known), len(found))
