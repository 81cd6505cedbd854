"""Translation of LlamaIndex's metadata filters to twinvec's; the store evaluates all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from twinvec.adapters.filter_values import range_limit
from twinvec.errors import FilterError
from twinvec.retrieval.filters import Filter
from twinvec_qdrant import NOTHING, all_of, metadata_key, payload_key, understood_filter

if TYPE_CHECKING:
    from qdrant_client import models

    AnyFilters = MetadataFilters | Filter | models.Filter

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


def as_filter(filters: object) -> Filter:
    """Return the twinvec filter that finds the same documents.

    ``filters`` is LlamaIndex's ``MetadataFilters``, a mapping as in ``twinvec.retrieval.filters``, or a
    ``qdrant_client.models.Filter``. Raise FilterError if an operator is not supported or does not take the value.
    """
    if not isinstance(filters, MetadataFilters):
        return understood_filter(filters) or {}
    parts = [as_filter(each) if isinstance(each, MetadataFilters) else _condition(each) for each in filters.filters]
    if not parts:
        return {}
    if filters.condition is FilterCondition.NOT:
        return {"$not": {"$or": parts}} if all(parts) else NOTHING
    if filters.condition is FilterCondition.OR:
        return {"$or": parts} if all(parts) else {}
    return all_of(parts)


def _condition(each: MetadataFilter) -> Filter:
    key, operator = payload_key(metadata_key(each.key)), each.operator
    if operator is FilterOperator.IS_EMPTY:
        return {key: {"exists": False}}
    if operator is FilterOperator.ALL:
        return all_of({key: {"eq": value}} for value in _listed(each))
    if operator not in _OPERATORS:
        known = sorted(known.value for known in (*_OPERATORS, FilterOperator.ALL, FilterOperator.IS_EMPTY))
        raise FilterError(
            f"filter {each.key!r}: {operator.value!r} is not supported; known operators: {', '.join(known)}"
        )
    if each.value is None:
        raise FilterError(
            f"filter {each.key!r}: {operator.value!r} needs a value, got None; to find missing values and nulls, use "
            f"the operator {FilterOperator.IS_EMPTY.value!r}"
        )
    name = _OPERATORS[operator]
    if name in ("in", "not_in"):
        return {key: {name: _listed(each)}}
    if name in ("eq", "ne") and isinstance(each.value, list):
        raise FilterError(f"filter {each.key!r}: {operator.value!r} takes one value, not a list; use 'in'")
    return {key: {name: range_limit(each.value) if name in ("gt", "gte", "lt", "lte") else each.value}}


def _listed(each: MetadataFilter) -> list[Any]:
    if isinstance(each.value, str) and each.operator in (FilterOperator.IN, FilterOperator.NIN):
        return each.value.split(",")  # LlamaIndex's own Qdrant store splits the value in the same way
    if not isinstance(each.value, list):
        raise FilterError(f"filter {each.key!r}: {each.operator.value!r} needs a list, got {each.value!r}")
    return list(each.value)
