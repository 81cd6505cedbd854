"""Conditions on points, independent of the store; ``tests`` splits them into what every store can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from twinvec.retrieval.filters.conditions import AllOf, AnyOf, Not, OneOf, Scalar, Test


@dataclass(frozen=True, slots=True)
class FieldIs:
    """The payload field at any of the paths passes the test.

    Attributes:
        paths: JSON paths of one key; a key inside nested lists has several.
        instead: Path to test if the field at the first path is missing; "" for none.
    """

    paths: tuple[str, ...]
    test: Test
    instead: str = ""


@dataclass(frozen=True, slots=True)
class IdIs:
    """The point's id is any of ``ids``."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LacksVector:
    """The point has no vector of this name."""

    name: str


StoreCondition = (
    FieldIs | IdIs | LacksVector | AllOf["StoreCondition"] | OneOf["StoreCondition"] | Not["StoreCondition"]
)
Conditions = Sequence[StoreCondition]
"""All of them must hold."""


def field_is(name: str, *values: Scalar) -> FieldIs:
    """Return the condition that a top-level field has any of the values."""
    return FieldIs((name,), AnyOf(values))
