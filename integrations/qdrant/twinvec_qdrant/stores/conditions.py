"""Conditions on points, in a form that belongs to no store; each backend translates them to its own classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinvec.retrieval.filters import Scalar

_EXACT_INTEGER = 2**53  # larger ones are not told apart as floats


@dataclass(frozen=True, slots=True)
class FieldIs:
    """The payload field at any of ``paths`` has any of ``values``, or lies within all of ``bounds``.

    Several paths stand for the ways in which one key can lie in nested lists. Numbers compare by value, so that
    1 finds 1.0. Where the first of them is missing, the field ``instead``, if one is named, is taken.
    """

    paths: tuple[str, ...]
    values: tuple[Scalar, ...] = ()
    bounds: tuple[tuple[str, float], ...] = ()
    instead: str = ""


@dataclass(frozen=True, slots=True)
class IdIs:
    """The point's id is any of ``ids``."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LacksVector:
    """The point has no vector of this name."""

    name: str


Condition = FieldIs | IdIs | LacksVector
Conditions = Sequence[Condition]
"""All of them must hold."""


def field_is(name: str, *values: Scalar) -> FieldIs:
    """The condition on one of our own fields, at the top level."""
    return FieldIs((name,), values)


@dataclass(frozen=True, slots=True)
class AnyText:
    """The field is one of these strings."""

    path: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exactly:
    """The field is this boolean, or this integer that is too large to be compared as a float."""

    path: str
    value: bool | int


@dataclass(frozen=True, slots=True)
class Within:
    """The field is a number within these bounds: gt, gte, lt, lte."""

    path: str
    bounds: tuple[tuple[str, float], ...]


Test = AnyText | Exactly | Within
"""What every store can test a field for by itself."""


def alternatives(condition: FieldIs, *paths: str) -> Iterator[Test]:
    """The tests of which one must hold; of other paths where they are given."""
    for path in paths or condition.paths:
        if condition.bounds:
            yield Within(path, condition.bounds)
            continue
        if texts := tuple(value for value in condition.values if isinstance(value, str)):
            yield AnyText(path, texts)
        for value in condition.values:
            if isinstance(value, bool) or (isinstance(value, int) and abs(value) > _EXACT_INTEGER):
                yield Exactly(path, value)
            elif not isinstance(value, str):
                yield Within(path, (("gte", value), ("lte", value)))
