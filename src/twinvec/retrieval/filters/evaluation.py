"""Evaluate filters in memory. Every store finds the same documents as this module."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, TypeVar

from twinvec.retrieval.filters.conditions import (
    AllOf,
    AnyOf,
    Between,
    Condition,
    During,
    Exists,
    Field,
    HasPhrase,
    HasWords,
    IsNull,
    Not,
    OneOf,
    Test,
    split_key,
)
from twinvec.retrieval.filters.instants import microseconds, moment
from twinvec.retrieval.filters.words import has_phrase, words

T = TypeVar("T")

_COMPARE = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}


def matches(conditions: Iterable[Condition], identity: str, payload: Mapping[str, Any]) -> bool:
    """Return whether a document satisfies every condition."""
    return all(_holds(each, identity, payload) for each in conditions)


def matches_all(conditions: Iterable[Condition]) -> bool:
    """Return whether the conditions hold for every document, whatever its payload."""
    return all(_known(each) is True for each in conditions)


def _known(condition: Condition) -> bool | None:
    """Return the truth of a condition if it is the same for all documents; None if it depends on the document."""
    if isinstance(condition, Field):
        return False if condition.test == AnyOf(()) else None
    if isinstance(condition, Not):
        known = _known(condition.part)
        return None if known is None else not known
    parts, decisive = [_known(each) for each in condition.parts], isinstance(condition, OneOf)
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def _holds(condition: Condition, identity: str, payload: Mapping[str, Any]) -> bool:
    if isinstance(condition, Field):
        return _passes(condition.test, _found(identity, payload, condition.key))
    if isinstance(condition, AllOf):
        return matches(condition.parts, identity, payload)
    if isinstance(condition, OneOf):
        return any(_holds(each, identity, payload) for each in condition.parts)
    return not _holds(condition.part, identity, payload)


def _found(identity: str, payload: Mapping[str, Any], key: str) -> list[Any]:
    """Return the values at a key; a list is one value."""
    if key == "id":
        return [identity]
    found: list[Any] = [payload]
    parts = split_key(key)
    for index, (part, listed) in enumerate(parts):
        found = [item[part] for item in found if isinstance(item, Mapping) and part in item]
        if listed:
            found = [item for item in found if isinstance(item, (list, tuple))]
        if index < len(parts) - 1:
            found = _elements(found)
    return found


def _elements(values: Iterable[Any]) -> list[Any]:
    return [each for value in values for each in (value if isinstance(value, (list, tuple)) else [value])]


def _passes(test: Test, found: list[Any]) -> bool:
    if isinstance(test, Exists):
        return any(value is not None and value not in ([], ()) for value in found)
    values = _elements(found)
    if isinstance(test, IsNull):
        return any(value is None for value in values)
    if isinstance(test, AnyOf):
        return any(_is_any_of(test, value) for value in values)
    if isinstance(test, Between):
        return any(_is_within(test.bounds, _number(value), float) for value in values)
    texts = [value for value in values if isinstance(value, str)]
    if isinstance(test, During):
        return any(_is_within(test.bounds, moment(text), microseconds) for text in texts)
    if isinstance(test, HasWords):
        return set(words(test.text)).issubset(word for text in texts for word in words(text))
    assert isinstance(test, HasPhrase)
    return any(has_phrase(text, test.text) for text in texts)


def _is_any_of(test: AnyOf, value: Any) -> bool:
    """Return whether a value of a document equals one of the values of the test."""
    if isinstance(value, str):
        return (str, value) in test.scalars or (bool(test.moments) and moment(value) in test.moments)
    if isinstance(value, bool):
        return (bool, value) in test.scalars
    if isinstance(value, int) and (int, value) in test.scalars:
        return True
    return isinstance(value, (int, float)) and (float, _number(value)) in test.scalars


def _is_within(
    bounds: Iterable[tuple[str, T]], found: float | Fraction | None, as_number: Callable[[T], float]
) -> bool:
    return found is not None and all(_COMPARE[name](found, as_number(limit)) for name, limit in bounds)


def _number(value: Any) -> float | None:
    """Return a number as a float, the form in which stores compare numbers; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:  # the integer exceeds every float
        return math.inf if value > 0 else -math.inf
