"""Conditions on points, independent of the store; ``values`` of each store translates them to the store's classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twinvec.retrieval.filters import Scalar

_EXACT_INTEGER = 2**53  # a float64 cannot tell larger integers apart


@dataclass(frozen=True, slots=True)
class FieldIs:
    """The payload field at any of the paths has any of the values, or lies within all bounds; 1 equals 1.0.

    Attributes:
        paths: JSON paths of one key; a key inside nested lists has several.
        bounds: Operator (gt, gte, lt, lte) and limit.
        instead: Path to test if the field at the first path is missing; "" for none.
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


StoreCondition = FieldIs | IdIs | LacksVector
Conditions = Sequence[StoreCondition]
"""All of them must hold."""


def field_is(name: str, *values: Scalar) -> FieldIs:
    """Return the condition that a top-level field has any of the values."""
    return FieldIs((name,), values)


@dataclass(frozen=True, slots=True)
class AnyText:
    """The field is one of these strings."""

    path: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exactly:
    """The field is this boolean, or this integer that a float cannot represent."""

    path: str
    value: bool | int


@dataclass(frozen=True, slots=True)
class Within:
    """The field is a number within these bounds: gt, gte, lt, lte."""

    path: str
    bounds: tuple[tuple[str, float], ...]


Test = AnyText | Exactly | Within
"""One test of one field, as every store can run it."""


def alternatives(condition: FieldIs, *paths: str) -> Iterator[Test]:
    """Split a condition into tests of which one must pass; ``paths`` replaces the condition's own paths."""
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
