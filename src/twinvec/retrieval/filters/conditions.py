"""The parts of a checked filter: tests of one field, and their combinations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any, Generic, TypeVar

from twinvec.errors import FilterError
from twinvec.retrieval.filters.instants import microseconds
from twinvec.support.checks import shown

Part = TypeVar("Part")

Scalar = str | int | float | bool | datetime
"""A value that fields are compared with. A datetime has a time zone."""

Filter = Mapping[str, Any]
"""A mapping in the language that ``twinvec.retrieval.filters`` describes."""

EXACT_INTEGER = 2**53
"""The first integer that float64 cannot tell from the next. An integer of this size or more equals integers only."""

MAX_LEVELS = 5
"""Largest number of parts of a dotted key."""

_ONE_PART = r'(?:"[^"\\]+"(?:\[\])?|[^."\\]+)'
_PART = re.compile(_ONE_PART)
_KEY = re.compile(rf"{_ONE_PART}(?:\.{_ONE_PART})*+")


@dataclass(frozen=True)
class AnyOf:
    """The field equals one of the values; a datetime equals texts of the same moment."""

    values: tuple[Scalar, ...]

    @cached_property
    def moments(self) -> frozenset[int]:
        """The datetimes among the values, in microseconds since 1970."""
        return frozenset(microseconds(value) for value in self.values if isinstance(value, datetime))

    @cached_property
    def scalars(self) -> frozenset[tuple[type, Scalar]]:
        """All other values for a look-up: (str, text), (bool, value), (float, number), or (int, large integer)."""
        return frozenset(_typed(value) for value in self.values if not isinstance(value, datetime))


@dataclass(frozen=True, slots=True)
class Between:
    """The field is a number within all bounds: pairs of an operator (gt, gte, lt, lte) and a number."""

    bounds: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class During:
    """The field is a date within all bounds: pairs of an operator (gt, gte, lt, lte) and a datetime with time zone."""

    bounds: tuple[tuple[str, datetime], ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """The field has a value that is neither null nor an empty list."""


@dataclass(frozen=True, slots=True)
class IsNull:
    """The field is null."""


@dataclass(frozen=True, slots=True)
class HasWords:
    """Each word of ``text`` is in one of the field's texts."""

    text: str


@dataclass(frozen=True, slots=True)
class HasPhrase:
    """One of the field's texts has the words of ``text`` one after another."""

    text: str


Test = AnyOf | Between | During | Exists | IsNull | HasWords | HasPhrase
"""A test of a field. A list passes if one of its elements passes."""


@dataclass(frozen=True, slots=True)
class Field:
    """The field named ``key`` passes the test."""

    key: str
    test: Test


@dataclass(frozen=True, slots=True)
class AllOf(Generic[Part]):
    """All parts hold."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class OneOf(Generic[Part]):
    """At least one part holds."""

    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Not(Generic[Part]):
    """The part does not hold."""

    part: Part


def _typed(value: str | int | float | bool) -> tuple[type, Scalar]:
    if isinstance(value, (str, bool)):
        return (str if isinstance(value, str) else bool), value
    if isinstance(value, int) and abs(value) >= EXACT_INTEGER:
        return int, value
    return float, float(value)


def mapped(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tree of combinations with ``change`` applied to each leaf."""
    if isinstance(tree, Not):
        return Not(mapped(tree.part, change))
    if isinstance(tree, AllOf | OneOf):
        return type(tree)(tuple(mapped(each, change) for each in tree.parts))
    return change(tree)


Condition = Field | AllOf["Condition"] | OneOf["Condition"] | Not["Condition"]
"""A node of a checked filter."""


def listed_keys(conditions: Iterable[Condition]) -> frozenset[str]:
    """Return the keys whose values the conditions restrict to lists of allowed values."""
    return frozenset().union(*map(_listed, conditions))


@lru_cache(maxsize=256)
def split_key(key: str) -> tuple[tuple[str, bool], ...]:
    """Return the parts of a dotted key, and for each whether its value must be a list, as in ``a[].b``.

    ``.id`` is the payload's key ``id``, and ``"a.b".c`` the key ``c`` below the key ``a.b``. Raise FilterError for a
    key that a store cannot address.
    """
    whole = key.removeprefix(".")
    if not _KEY.fullmatch(whole):
        raise FilterError(
            f"filter {shown(key)}: each part of a key must be non-empty, without double quote and backslash; a part "
            'that has a dot is written in double quotes, as "a.b"'
        )
    *inner, last = names = _PART.findall(whole)
    if len(names) > MAX_LEVELS:
        raise FilterError(f"filter {shown(key)}: the key has {len(names)} parts, and the limit is {MAX_LEVELS}")
    marked = [(part[:-2], True) if part.endswith("[]") and part != "[]" else (part, False) for part in inner]
    return tuple((part.strip('"'), listed) for part, listed in (*marked, (last, False)))


def _listed(condition: Condition) -> frozenset[str]:
    if isinstance(condition, AllOf):
        return listed_keys(condition.parts)
    if isinstance(condition, OneOf):
        return frozenset.intersection(*map(_listed, condition.parts)) if condition.parts else frozenset()
    if isinstance(condition, Field) and isinstance(condition.test, AnyOf):
        return frozenset((condition.key,))
    return frozenset()
