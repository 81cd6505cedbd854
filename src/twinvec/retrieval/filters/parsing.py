"""Checks of filters: a mapping becomes a tree of conditions, or an error that names the mistake."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from twinvec.errors import FilterError, TextError
from twinvec.retrieval.documents import as_id
from twinvec.retrieval.filters.conditions import (
    AllOf,
    AnyOf,
    Between,
    Condition,
    During,
    Exists,
    Field,
    Filter,
    HasPhrase,
    HasWords,
    IsNull,
    Not,
    OneOf,
    Scalar,
    split_key,
)
from twinvec.retrieval.filters.instants import limit as moment_of
from twinvec.retrieval.filters.words import words
from twinvec.support.checks import plain_scalar, shown
from twinvec.text import check_text

MAX_DEPTH = 16
"""Largest nesting depth of filters."""

_BOUNDS = ("gt", "gte", "lt", "lte")
_OPERATORS = ("eq", "ne", "in", "not_in", *_BOUNDS, "exists", "null", "text", "phrase")
_ALIASES = {"nin": "not_in"}
_INT64 = range(-(2**63), 2**63)


def parse_filter(filter: Filter | None) -> list[Condition]:
    """Check a filter and return its conditions, which must all hold.

    Raise FilterError if the filter does not follow the grammar, or a value cannot be compared: a type other than
    string, number, boolean and date, a number that is not finite or exceeds 64 bits, or a lone surrogate.
    """
    return [] if filter is None else _conditions(filter, 1)


def _conditions(filter: object, depth: int) -> list[Condition]:
    if not isinstance(filter, Mapping):
        raise FilterError(f"a filter must be a mapping of payload keys to values, got {type(filter).__name__}")
    if depth > MAX_DEPTH:
        raise FilterError(f"the filter is nested more than {MAX_DEPTH} levels deep, which is the limit")
    return [each for key, wanted in filter.items() for each in _entry(key, wanted, depth)]


def _entry(key: object, wanted: object, depth: int) -> list[Condition]:
    if not isinstance(key, str) or not key:
        raise FilterError(f"filter keys must be non-empty strings, got {key!r}")
    _check_text(key, key)
    if key.endswith("[]") and not key.endswith(".[]") and key != "[]":
        raise FilterError(f"filter {shown(key)}: write {key[:-2]!r}, which finds a list by any of its elements")
    if _combines(key, wanted):
        name = key.removeprefix("$")
        if name == "not":
            return [Not(_all(_inner(key, wanted, depth)))]
        if not isinstance(wanted, (list, tuple)):
            raise FilterError(
                f"filter {shown(key)}: expected a list of filters, such as [{{'lang': 'en'}}], got {shown(wanted)}"
            )
        parts = tuple(_all(_inner(key, each, depth)) for each in wanted)
        return [AllOf(parts) if name == "and" else OneOf(parts)]
    split_key(key)  # refuses a key that stores cannot address
    return _field(key, wanted)


def _combines(key: str, wanted: object) -> bool:
    """Return whether a key is the operator ``and``, ``or`` or ``not``; if not, it is a key of the payload."""
    if key.startswith("$"):
        return key in ("$and", "$or", "$not")
    if key not in ("and", "or", "not"):
        return False
    if isinstance(wanted, (list, tuple)):
        return any(isinstance(each, Mapping) for each in wanted) or (not wanted and key != "not")
    if not isinstance(wanted, Mapping):
        return False
    if key == "not":
        return not wanted or not set(wanted) <= set(_BOUNDS)
    return any(_operator(name) not in _OPERATORS for name in wanted)


def _inner(key: str, filter: object, depth: int) -> list[Condition]:
    if not isinstance(filter, Mapping) or not filter:
        raise FilterError(
            f"filter {shown(key)}: expected a filter with conditions, such as {{'lang': 'en'}}, got {shown(filter)}"
        )
    return _conditions(filter, depth + 1)


def _all(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else AllOf(tuple(conditions))


def _field(key: str, wanted: object) -> list[Condition]:
    if not isinstance(wanted, Mapping):
        listed = isinstance(wanted, (list, tuple, set, frozenset))
        return [Field(key, _any_of(key, wanted) if listed else _equal(key, wanted))]
    given: dict[str, Any] = {}
    for name, argument in wanted.items():
        operator = _operator(name)
        if operator not in _OPERATORS:
            raise FilterError(
                f"filter {shown(key)}: unknown operator {name!r}; known operators: {', '.join(_OPERATORS)}. "
                f"Write {f'{key}.{name}'!r} for a nested key"
            )
        if operator in given:
            raise FilterError(f"filter {shown(key)}: {operator!r} is given twice")
        given[operator] = argument
    if not given:
        raise FilterError(f"filter {shown(key)}: the mapping has no operator; known operators: {', '.join(_OPERATORS)}")
    bounds = {name: given.pop(name) for name in _BOUNDS if name in given}
    conditions = [_OPERATE[name](key, argument) for name, argument in given.items()]
    return [Field(key, _range(key, bounds)), *conditions] if bounds else conditions


def _operator(name: object) -> str:
    if not isinstance(name, str):
        return ""
    plain = name.removeprefix("$")
    return _ALIASES.get(plain, plain)


def _flag(key: str, argument: Any, test: Exists | IsNull) -> Condition:
    argument = plain_scalar(argument)
    if not isinstance(argument, bool):
        raise FilterError(f"filter {shown(key)}: exists and null take true or false, not {shown(argument)}")
    return Field(key, test) if argument else Not(Field(key, test))


def _text(key: str, argument: Any) -> str:
    if not isinstance(argument, str):
        raise FilterError(f"filter {shown(key)}: text and phrase take a text, not {shown(argument)}")
    _check_text(key, argument)
    if not words(argument):
        raise FilterError(f"filter {shown(key)}: {shown(argument)} has no word")
    return argument


_OPERATE: dict[str, Callable[[str, Any], Condition]] = {
    "eq": lambda key, argument: Field(key, _equal(key, argument)),
    "ne": lambda key, argument: Not(Field(key, _equal(key, argument))),
    "in": lambda key, argument: Field(key, _any_of(key, argument)),
    "not_in": lambda key, argument: Not(Field(key, _any_of(key, argument))),
    "exists": lambda key, argument: _flag(key, argument, Exists()),
    "null": lambda key, argument: _flag(key, argument, IsNull()),
    "text": lambda key, argument: Field(key, HasWords(_text(key, argument))),
    "phrase": lambda key, argument: Field(key, HasPhrase(_text(key, argument))),
}


def _equal(key: str, wanted: object) -> AnyOf:
    if isinstance(wanted, (list, tuple, set, frozenset)):
        raise FilterError(f"filter {shown(key)}: eq and ne take one value; use in or not_in for {shown(wanted)}")
    return AnyOf((_value(key, wanted),))


def _any_of(key: str, wanted: object) -> AnyOf:
    if not isinstance(wanted, (list, tuple, set, frozenset)):
        raise FilterError(f"filter {shown(key)}: in and not_in take a list of values, not {shown(wanted)}")
    return AnyOf(tuple(_value(key, each) for each in wanted))


def _value(key: str, value: object) -> Scalar:
    value = as_id(value) if key == "id" else plain_scalar(value)  # a number as id is stored as text
    if isinstance(value, str):
        _check_text(key, value)
        return value
    if isinstance(value, (int, float)):
        _check_number(key, value)
        return value
    if isinstance(value, date) and (moment := moment_of(value)):
        return moment
    hint = "; write {'null': True} or {'exists': False}" if value is None else ""
    raise FilterError(
        f"filter {shown(key)}: compare with strings, numbers, booleans or dates, not {shown(value)}{hint}"
    )


def _range(key: str, bounds: Mapping[str, Any]) -> Between | During:
    bounds = {name: plain_scalar(limit) for name, limit in bounds.items()}
    for name, limit in bounds.items():
        if isinstance(limit, bool) or not isinstance(limit, (int, float, str, date)):
            raise FilterError(f"filter {shown(key)}: {name} takes a number or a date, not {shown(limit)}")
    numbers = {name: limit for name, limit in bounds.items() if isinstance(limit, (int, float))}
    if not numbers:
        return During(tuple((name, _moment(key, name, limit)) for name, limit in bounds.items()))
    if len(numbers) < len(bounds):
        raise FilterError(
            f"filter {shown(key)}: the bounds of a range must be all numbers or all dates, got {dict(bounds)!r}"
        )
    for number in numbers.values():
        _check_number(key, number)
    return Between(tuple(numbers.items()))


def _moment(key: str, name: str, value: str | date) -> datetime:
    moment = moment_of(value)
    if moment is None:
        raise FilterError(
            f"filter {shown(key)}: {name} takes a number, or a date in ISO 8601 such as '2024-05-01' or "
            f"'2024-05-01T10:30:00Z', not {shown(value)}"
        )
    return moment


def _check_number(key: str, number: float) -> None:
    if isinstance(number, int) and number not in _INT64:
        raise FilterError(f"filter {shown(key)}: the integer does not fit into 64 bits")
    if not math.isfinite(number):
        raise FilterError(f"filter {shown(key)}: compare with finite numbers, not {number!r}")


def _check_text(key: str, text: str) -> None:
    try:
        check_text(text, f"filter {shown(key)}")
    except TextError as error:
        raise FilterError(str(error)) from None
