"""Translation of LlamaIndex's metadata filters to twinvec's.

A twinvec filter is a mapping of conditions that must all hold: equal, any of, in a range. The store evaluates such
filters. Others (or, not, unequal) are evaluated to a set of document ids first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from twinvec.errors import FilterError
from twinvec.retrieval.filters import Filter

Find = Callable[[Filter | None], list[str]]
"""A function that returns the ids of all documents that satisfy a filter."""

_BOUNDS = {
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
}
_EQUAL = (FilterOperator.EQ, FilterOperator.CONTAINS)
_ANY_OF = (FilterOperator.IN, FilterOperator.ANY)
_NEGATED = {FilterOperator.NE: FilterOperator.EQ, FilterOperator.NIN: FilterOperator.IN}


def as_filter(filters: MetadataFilters | None, find: Find) -> Filter | None:
    """Return the twinvec filter that finds the same documents, or None if no document matches.

    Raise FilterError if an operator is not supported or does not take the value.
    """
    if filters is None:
        return {}
    merged = _merged(filters)
    if merged is not None:
        return merged
    ids = _ids(filters, find)
    return {"id": sorted(ids)} if ids else None


def both(first: Filter | None, second: Filter | None, find: Find) -> Filter | None:
    """Return the filter that requires both, or None if no document matches."""
    if first is None or second is None:
        return None
    if not first.keys() & second.keys():
        return {**first, **second}
    ids = set(find(first)).intersection(find(second))
    return {"id": sorted(ids)} if ids else None


def _merged(filters: MetadataFilters) -> dict[str, Any] | None:
    """Return the filter as one mapping, or None if it has another form."""
    if filters.condition not in (FilterCondition.AND, None):
        return None
    merged: dict[str, Any] = {}
    for each in filters.filters:
        found = _merged(each) if isinstance(each, MetadataFilters) else _mapping(each)
        if found is None or merged.keys() & found.keys():
            return None
        merged |= found
    return merged


def _ids(each: MetadataFilters | MetadataFilter, find: Find) -> set[str]:
    if isinstance(each, MetadataFilters):
        parts = [_ids(part, find) for part in each.filters]
        if each.condition is FilterCondition.OR and parts:
            return set().union(*parts)
        if each.condition is FilterCondition.NOT:
            return set(find(None)).difference(*parts)
        return set.intersection(*parts) if parts else set(find(None))
    mapping = _mapping(each)
    if mapping is not None:
        return set(find(mapping))
    if each.operator is FilterOperator.ALL:
        return set.intersection(*(set(find({each.key: value})) for value in _listed(each)))
    positive = MetadataFilter(key=each.key, value=each.value, operator=_NEGATED[each.operator])
    return set(find(None)).difference(find(_mapping(positive)))


def _mapping(each: MetadataFilter) -> dict[str, Any] | None:
    """Return one condition as a mapping, or None if it needs sets of ids."""
    if each.key == "id":
        raise FilterError("filter 'id': this key means the node's own id; use node_ids for that, or rename the key")
    operator = each.operator
    if operator in _BOUNDS:
        return {each.key: {_BOUNDS[operator]: each.value}}
    if operator in _ANY_OF:
        return {each.key: _listed(each)}
    if operator in _EQUAL:
        if isinstance(each.value, list):
            raise FilterError(f"filter {each.key!r}: {operator.value!r} takes one value, not a list; use 'in'")
        return {each.key: each.value}
    if operator in _NEGATED or operator is FilterOperator.ALL:
        return None
    known = sorted(known.value for known in (*_BOUNDS, *_EQUAL, *_ANY_OF, *_NEGATED, FilterOperator.ALL))
    raise FilterError(f"filter {each.key!r}: {operator.value!r} is not supported; known operators: {', '.join(known)}")


def _listed(each: MetadataFilter) -> list[Any]:
    if not isinstance(each.value, list) or not each.value:
        raise FilterError(f"filter {each.key!r}: {each.operator.value!r} takes a list with values, got {each.value!r}")
    return list(each.value)
