"""Filters on payloads: one small mapping for every retriever.

    {"lang": "en"}                              equal
    {"lang": ["en", "de"]}                      any of
    {"year": {"gte": 2020, "lt": 2024}}         in a range: gt, gte, lt, lte
    {"author.name": "Ada"}                      a nested key
    {"id": ["a.md", "b.md"]}                    the document's own id

All conditions must hold. A list in the payload matches if one of its elements does. A missing key never matches.
This module checks filters and evaluates them in memory; stores translate them to their own language.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinvec.errors import FilterError, TextError
from twinvec.text import check_text

_COMPARE = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
RANGE_KEYS = tuple(_COMPARE)
_INT64 = range(-(2**63), 2**63)
Scalar = str | int | float | bool
Filter = Mapping[str, Any]
"""A mapping as in the examples above."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A checked condition: the value of ``key`` is one of ``any_of``, or lies within ``bounds`` (name, limit)."""

    key: str
    any_of: tuple[Scalar, ...] = ()
    bounds: tuple[tuple[str, float], ...] = ()


def parse_filter(filter: Filter | None) -> list[Condition]:
    """Check a filter and return its conditions.

    Raise FilterError if a key is not a string, a range is malformed, or a value cannot be compared: a type other than
    string, number and boolean, a number that is not finite or exceeds 64 bits, or a lone surrogate.
    """
    if filter is None:
        return []
    if not isinstance(filter, Mapping):
        raise FilterError(f"a filter is a mapping of payload keys to values, got {type(filter).__name__}")
    return [_condition(key, wanted) for key, wanted in filter.items()]


def matches(conditions: Sequence[Condition], identity: str, payload: Mapping[str, Any]) -> bool:
    """Return whether a document satisfies every condition."""
    return all(any(_holds(c, value) for value in _values(identity, payload, c.key)) for c in conditions)


def _condition(key: object, wanted: object) -> Condition:
    if not isinstance(key, str) or not key:
        raise FilterError(f"filter keys are non-empty strings, got {key!r}")
    _check_text(key, key)
    if isinstance(wanted, Mapping):
        return Condition(key, bounds=_bounds(key, wanted))
    options: list[Any] = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset)) else [wanted]
    if not options:
        raise FilterError(f"filter {key!r}: an empty list matches nothing")
    for option in options:
        if isinstance(option, str):
            _check_text(key, option)
        elif not isinstance(option, (int, float, bool)):
            raise FilterError(f"filter {key!r}: compare with strings, numbers or booleans, not {option!r}")
        else:
            _check_number(key, option)
    return Condition(key, any_of=tuple(options))


def _bounds(key: str, wanted: Mapping[Any, Any]) -> tuple[tuple[str, float], ...]:
    if not wanted or set(wanted) - set(RANGE_KEYS):
        raise FilterError(f"filter {key!r}: a range has keys among {', '.join(RANGE_KEYS)}, got {dict(wanted)!r}")
    for limit in wanted.values():
        if isinstance(limit, bool) or not isinstance(limit, (int, float)):
            raise FilterError(f"filter {key!r}: a range is made of numbers, not {limit!r}")
        _check_number(key, limit)
    return tuple((name, wanted[name]) for name in RANGE_KEYS if name in wanted)


def _check_number(key: str, number: float) -> None:
    if isinstance(number, int) and number not in _INT64:
        raise FilterError(f"filter {key!r}: an integer that does not fit into 64 bits")
    if not math.isfinite(number):
        raise FilterError(f"filter {key!r}: compare with finite numbers, not {number!r}")


def _check_text(key: str, text: str) -> None:
    try:
        check_text(text, f"filter {key!r}")
    except TextError as error:
        raise FilterError(str(error)) from None


def _values(identity: str, payload: Mapping[str, Any], key: str) -> list[Any]:
    if key == "id":
        return [identity]
    found: list[Any] = [payload]
    for part in key.split("."):
        found = [item[part] for item in found if isinstance(item, Mapping) and part in item]
        found = [each for item in found for each in (item if isinstance(item, (list, tuple)) else [item])]
    return found


def _holds(condition: Condition, value: Any) -> bool:
    if condition.bounds:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return all(_COMPARE[name](value, limit) for name, limit in condition.bounds)
    return any(value == option and isinstance(value, bool) == isinstance(option, bool) for option in condition.any_of)
