"""Filters that fit a server's limits: on the values of a condition, and on the conditions of a filter.

A condition with too many values becomes several conditions, one of which must hold. If the filter then has too many
conditions, it becomes several filters, which together select the same points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdrant_client import models

from twinvec_qdrant.stores.points import pages
from twinvec_qdrant.stores.server.limits.permitted import Limits


def narrowed(filter: models.Filter | None, limits: Limits) -> list[models.Filter | None]:
    """Return filters within the limits that together select the points of ``filter``; some may select the same point.

    ``filter`` comes from ``values.client_filter``. A filter that cannot be split stays too large; the server refuses it
    and names the limit.
    """
    if filter is None:
        return [None]
    cut = filter if limits.values is None else _cut(filter, limits.values)
    if limits.conditions is None or conditions_of(cut) <= limits.conditions:
        return [cut]
    return list(_divided(cut, limits.conditions))


def excluding(filter: models.Filter | None, ids: Sequence[Any], limits: Limits) -> models.Filter | None:
    """Return a filter that also excludes the points of these ids; None if it would exceed the limits."""
    pages_of_ids = pages(ids, limits.values or len(ids))
    wanted = filter or models.Filter()
    excluded = [*_listed(wanted.must_not), *(models.HasIdCondition(has_id=page) for page in pages_of_ids)]
    wanted = wanted.model_copy(update={"must_not": excluded})
    return wanted if limits.conditions is None or conditions_of(wanted) <= limits.conditions else None


def conditions_of(filter: models.Filter | None) -> int:
    """Count the conditions of a filter and of the filters in it, as the server does."""
    if filter is None:
        return 0
    return sum(_size(each) for some in (filter.must, filter.must_not, filter.should) for each in _listed(some))


def _listed(conditions: Any) -> list[Any]:
    return conditions or []


def _size(condition: Any) -> int:
    return conditions_of(condition) if isinstance(condition, models.Filter) else 1


def _cut(filter: models.Filter, most: int) -> models.Filter:
    """Return the filter with at most this many values in each condition."""
    should: list[Any] = []
    for each in _listed(filter.should):
        cut = _cut_condition(each, most)
        # a nested list of alternatives becomes part of this list
        should += cut.should if _is_alternatives(cut) else [cut]
    return models.Filter(
        must=[_cut_condition(each, most) for each in _listed(filter.must)] or None,
        must_not=[_cut_condition(each, most) for each in _listed(filter.must_not)] or None,
        should=should or None,
    )


def _cut_condition(condition: Any, most: int) -> Any:
    if isinstance(condition, models.Filter):
        return _cut(condition, most)
    if isinstance(condition, models.HasIdCondition) and len(condition.has_id) > most:
        return models.Filter(should=[models.HasIdCondition(has_id=page) for page in pages(condition.has_id, most)])
    if isinstance(condition, models.FieldCondition) and isinstance(condition.match, models.MatchAny):
        values: Sequence[Any] = condition.match.any
        if len(values) > most:
            parts = [models.MatchAny(any=page) for page in pages(values, most)]
            return models.Filter(should=[condition.model_copy(update={"match": part}) for part in parts])
    return condition


def _is_alternatives(condition: Any) -> bool:
    return (
        isinstance(condition, models.Filter) and bool(condition.should) and not (condition.must or condition.must_not)
    )


def _divided(filter: models.Filter, most: int) -> list[models.Filter]:
    """Return filters of at most this many conditions, among which the largest list of alternatives is divided."""
    must = _listed(filter.must)
    choices = [row for row, each in enumerate(must) if _is_alternatives(each) and len(each.should) > 1]
    if not choices:
        return [filter]
    row = max(choices, key=lambda each: conditions_of(must[each]))
    room = most - (conditions_of(filter) - conditions_of(must[row]))
    if room < 1:
        return [filter]
    found: list[models.Filter] = []
    group: list[Any] = []
    for each in [*must[row].should, None]:
        if group and (each is None or sum(map(_size, [*group, each])) > room):
            parts = [*must[:row], models.Filter(should=group), *must[row + 1 :]]
            found.append(filter.model_copy(update={"must": parts}))
            group = []
        group.append(each)
    return found
