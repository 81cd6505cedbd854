"""Translation of LlamaIndex's metadata filters to twinvec's; the store evaluates all of them."""

from __future__ import annotations

from typing import Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from twinvec.errors import FilterError
from twinvec.retrieval.filters import Filter

_OPERATORS = {
    FilterOperator.EQ: "eq",
    FilterOperator.CONTAINS: "eq",
    FilterOperator.NE: "ne",
    FilterOperator.GT: "gt",
    FilterOperator.GTE: "gte",
    FilterOperator.LT: "lt",
    FilterOperator.LTE: "lte",
    FilterOperator.IN: "in",
    FilterOperator.ANY: "in",
    FilterOperator.NIN: "not_in",
    FilterOperator.TEXT_MATCH: "text",
    FilterOperator.TEXT_MATCH_INSENSITIVE: "text",
}
_NOTHING: Filter = {"id": {"exists": False}}


def as_filter(filters: MetadataFilters | None) -> Filter:
    """Return the twinvec filter that finds the same documents.

    Raise FilterError if an operator is not supported or does not take the value.
    """
    if filters is None:
        return {}
    parts = [as_filter(each) if isinstance(each, MetadataFilters) else _condition(each) for each in filters.filters]
    if filters.condition is FilterCondition.NOT:
        return _none_of(parts)
    if filters.condition is FilterCondition.OR:
        return {"$or": parts} if all(parts) and parts else {}
    return both(*parts)


def both(*parts: Filter) -> Filter:
    """Return the filter that requires all parts; an empty one requires nothing."""
    needed = [part for part in parts if part]
    return {"$and": needed} if len(needed) > 1 else needed[0] if needed else {}


def _none_of(parts: list[Filter]) -> Filter:
    if not parts:
        return {}
    return {"$not": {"$or": parts}} if all(parts) else _NOTHING


def _condition(each: MetadataFilter) -> Filter:
    if each.key == "id":
        raise FilterError("filter 'id': this key means the node's own id; use node_ids for that, or rename the key")
    operator = each.operator
    if operator is FilterOperator.IS_EMPTY:
        return {each.key: {"exists": False}}
    if operator is FilterOperator.ALL:
        return both(*({each.key: {"eq": value}} for value in _listed(each)))
    if operator not in _OPERATORS:
        known = sorted(known.value for known in (*_OPERATORS, FilterOperator.ALL, FilterOperator.IS_EMPTY))
        raise FilterError(
            f"filter {each.key!r}: {operator.value!r} is not supported; known operators: {', '.join(known)}"
        )
    name = _OPERATORS[operator]
    if name in ("in", "not_in"):
        return {each.key: {name: _listed(each)}}
    if name in ("eq", "ne") and isinstance(each.value, list):
        raise FilterError(f"filter {each.key!r}: {operator.value!r} takes one value, not a list; use 'in'")
    return {each.key: {name: each.value}}


def _listed(each: MetadataFilter) -> list[Any]:
    if not isinstance(each.value, list) or not each.value:
        raise FilterError(f"filter {each.key!r}: {each.operator.value!r} takes a list with values, got {each.value!r}")
    return list(each.value)
