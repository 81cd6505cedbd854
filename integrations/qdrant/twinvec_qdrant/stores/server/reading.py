"""Reading the points of a server's collection by their ids or by conditions, and counting them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from qdrant_client import models

from twinvec_qdrant.stores.conditions import Conditions, LacksVector
from twinvec_qdrant.stores.points import (
    PAGE,
    STATES_PAGE,
    Point,
    States,
    pages,
    payload_selector,
    states_name,
    stored_point,
    stored_states,
    stored_vectors,
    vector_selector,
)
from twinvec_qdrant.stores.server.errors import UnknownVectorError
from twinvec_qdrant.stores.server.limits.known import KnownCollection
from twinvec_qdrant.stores.server.limits.narrowing import conditions_of, narrowed
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.values import client_filter, wire_id
from twinvec_qdrant.stores.steps import Steps

_IDS_PAGE = 10_000
"""Largest number of points in one request that returns ids only."""

_Page = tuple[list[Any], Any]
"""The points of a page, and the offset of the next page; None after the last page."""


class Reading(KnownCollection):
    """The methods of a server's backend that read points."""

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        return self.run(self._points(ids, fields, vector))

    def points(self, ids: Sequence[str], vector: str | None = None) -> Steps[dict[str, Point]]:
        return self._points(ids, None, vector)

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        return stored_states(self.run(self._by_id(ids, STATES_PAGE, False, states_name(vector))), vector)

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        (wanted,) = self.run(self._fitted(conditions))
        scrolled = heapq.merge(*self._scroll(client_filter(wanted), fields, PAGE, _lacking(conditions)), key=_place)
        return (next(same) for _, same in groupby(scrolled, _place))

    def holds(self, conditions: Conditions) -> bool:
        (wanted,) = self.run(self._fitted(conditions))
        lacking = _lacking(conditions)
        scrolled = self._scroll(client_filter(wanted), [], PAGE if lacking else 1, lacking)
        return any(next(points, None) for points in scrolled)

    def count(self, conditions: Conditions) -> int:
        (fitted,) = self.run(self._fitted(conditions))
        wanted = client_filter(fitted)

        def count(limits: Limits) -> Steps[int | None]:
            parts = narrowed(wanted, limits)
            if not limits.exact or len(parts) > 1:
                return None
            answer = yield from self._read("count", limits, 1 + conditions_of(wanted), count_filter=parts[0])
            return int(answer.count)

        counted = self.run(self._within(count))
        if counted is not None:
            return counted
        return len({point.id for points in self._scroll(wanted, [], _IDS_PAGE) for point in points})

    def _points(self, ids: Sequence[str], fields: Sequence[str] | None, vector: str | None) -> Steps[dict[str, Point]]:
        records = yield from self._by_id(ids, PAGE, payload_selector(fields), vector)
        return {str(record.id): stored_point(record, vector) for record in records}

    def _by_id(
        self, ids: Sequence[str], most: int, payload: bool | list[str], vector: str | None
    ) -> Steps[list[models.Record]]:
        def read(limits: Limits) -> Steps[list[models.Record]]:
            found: list[models.Record] = []
            options: Mapping[str, Any] = {"with_payload": payload, "with_vectors": vector_selector(vector)}
            for page in pages(map(wire_id, ids), limits.read(most)):
                found += yield from self._read("retrieve", limits, len(page), page, **options)
            return found

        return self._within(read)

    def _scroll(
        self, wanted: models.Filter | None, fields: Sequence[str] | None, most: int, lacking: Sequence[str] = ()
    ) -> list[Iterator[Point]]:
        """Return iterators over the points, each in the order of ids; several of them may yield the same point.

        Points with a vector named in ``lacking`` are left out. While a server optimizes, a filter for points without a
        vector may also find points that have it (seen with Qdrant 1.18.3), so these vectors are read as well. If the
        server refuses that, the collection has no such vector yet, and all points lack it.
        """

        def page(limits: Limits, part: models.Filter | None, start: Any) -> Steps[_Page]:
            def read(vectors: list[str] | bool) -> Steps[_Page]:
                return self._read(
                    "scroll",
                    limits,
                    1 + conditions_of(part),
                    scroll_filter=part,
                    limit=limits.page(most),
                    offset=start,
                    with_payload=payload_selector(fields),
                    with_vectors=vectors,
                )

            try:
                return (yield from read([*lacking] or False))
            except UnknownVectorError:
                return (yield from read(False))

        def first(limits: Limits) -> Steps[list[tuple[models.Filter | None, _Page]]]:
            begun = []
            for part in narrowed(wanted, limits):
                begun.append((part, (yield from page(limits, part, None))))
            return begun

        def scrolled(part: models.Filter | None, begun: _Page) -> Iterator[Point]:
            records, following = begun
            yield from kept(records)
            while following is not None:
                records, following = self.run(self._within(partial(page, part=part, start=following)))
                yield from kept(records)

        def kept(records: Iterable[Any]) -> Iterator[Point]:
            return (stored_point(record) for record in records if stored_vectors(record).keys().isdisjoint(lacking))

        return [scrolled(*each) for each in self.run(self._within(first))]


def _lacking(conditions: Conditions) -> list[str]:
    """Return the names of the vectors that points must lack, by the conditions."""
    return [condition.name for condition in conditions if isinstance(condition, LacksVector)]


def _place(point: Point) -> tuple[int, str]:
    """Return the sort key that orders points as a server does: integer ids come before UUIDs."""
    return (int(point.id), "") if point.id.isdecimal() else (2**64, point.id)
