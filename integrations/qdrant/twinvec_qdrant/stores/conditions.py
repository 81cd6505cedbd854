"""Conditions on points, independent of the store; ``tests`` splits them into what every store can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from twinvec.retrieval.filters.conditions import AllOf, AnyOf, Not, OneOf, Scalar, Test

Tests = TypeVar("Tests")


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


@dataclass(frozen=True, slots=True)
class Fitted(Generic[Tests]):
    """The ``field_tests`` that decide about a condition, fitted to a store's payload indexes (``served_tests``)."""

    tests: Tests


StoreCondition = (
    FieldIs
    | IdIs
    | LacksVector
    | Fitted[Any]
    | AllOf["StoreCondition"]
    | OneOf["StoreCondition"]
    | Not["StoreCondition"]
)
Conditions = Sequence[StoreCondition]
"""All of them must hold."""


def field_is(name: str, *values: Scalar) -> FieldIs:
    """Return the condition that a top-level field has any of the values."""
    return FieldIs((name,), AnyOf(values))
