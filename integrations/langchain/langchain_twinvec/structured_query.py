"""TwinvecTranslator: LangChain's structured queries as twinvec's filters, for ``SelfQueryRetriever``."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery, Visitor

from twinvec.adapters.filter_values import range_limit
from twinvec.errors import FilterError
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.filters.words import words
from twinvec_qdrant import payload_key

_COMPARATORS = {
    Comparator.EQ: "eq",
    Comparator.NE: "ne",
    Comparator.GT: "gt",
    Comparator.GTE: "gte",
    Comparator.LT: "lt",
    Comparator.LTE: "lte",
    Comparator.CONTAIN: "contain",
    Comparator.LIKE: "text",
    Comparator.IN: "in",
    Comparator.NIN: "not_in",
}


class TwinvecTranslator(Visitor):
    """Translates a structured query that a language model has written; every comparator and operator is supported.

        SelfQueryRetriever.from_llm(
            llm, store, "pages of a handbook", fields, structured_query_translator=TwinvecTranslator()
        )

    ``contain`` compares with the elements of a list or the words of a text, ``like`` with the words of a text. On a
    server, both need a text index of the key: ``payload_indexes={"tags": "text"}``.
    """

    allowed_operators = (Operator.AND, Operator.OR, Operator.NOT)
    allowed_comparators = tuple(_COMPARATORS)

    def visit_operation(self, operation: Operation) -> Filter:
        """Return the filter of combined statements."""
        self._validate_func(operation.operator)
        parts = [each.accept(self) for each in operation.arguments]
        if operation.operator is Operator.NOT:
            return {"$not": parts[0] if len(parts) == 1 else {"$or": parts}}
        return {f"${operation.operator.value}": parts}

    def visit_comparison(self, comparison: Comparison) -> Filter:
        """Return the filter of one comparison."""
        self._validate_func(comparison.comparator)
        name, value = _COMPARATORS[comparison.comparator], _value(comparison.value)
        key = payload_key(comparison.attribute.removeprefix("metadata."))
        if name in ("in", "not_in"):
            return {key: {name: value if isinstance(value, list) else [value]}}
        if name == "text":
            return {key: {"text": str(value).replace("%", " ")}}
        if name == "contain":
            has_words = isinstance(value, str) and words(value)
            return {"$or": [{key: value}, {key: {"text": value}}]} if has_words else {key: value}
        return {key: {name: range_limit(value) if name in ("gt", "gte", "lt", "lte") else value}}

    def visit_structured_query(self, structured_query: StructuredQuery) -> tuple[str, dict[str, Any]]:
        """Return the query's text, and the arguments of a search: the filter, and ``k`` for a limit."""
        arguments: dict[str, Any] = {}
        if structured_query.filter is not None:
            arguments["filter"] = structured_query.filter.accept(self)
        if structured_query.limit is not None:
            arguments["k"] = structured_query.limit
        return structured_query.query, arguments


def _value(value: Any) -> Any:
    """Return a value of a structured query as a filter's value; the query has dates as mappings with a type."""
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if not isinstance(value, dict) or "type" not in value:
        return value
    kind = value["type"]
    try:
        read = {"date": date.fromisoformat, "datetime": datetime.fromisoformat}[kind]
        return read(value[kind])
    except (KeyError, TypeError, ValueError):
        raise FilterError(f"expected a date or datetime in ISO 8601, got {value!r}") from None
