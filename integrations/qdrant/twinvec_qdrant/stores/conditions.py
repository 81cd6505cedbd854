"""Conditions on points, and trees of single tests: every condition becomes such a tree, which stores translate.

A test looks at the value at one path. A list passes if one of its elements passes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from twinvec.retrieval.filters.conditions import (
    EXACT_INTEGER,
    AllOf,
    AnyOf,
    Between,
    During,
    Exists,
    HasPhrase,
    HasWords,
    IsNull,
    Not,
    OneOf,
    Scalar,
    Test,
    mapped,
)
from twinvec.retrieval.filters.words import searchable_parts

T = TypeVar("T")


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
class Fitted:
    """The tests of a condition, adapted to the payload indexes of a store (``served_tests``)."""

    tests: Tests


StoreCondition = (
    FieldIs | IdIs | LacksVector | Fitted | AllOf["StoreCondition"] | OneOf["StoreCondition"] | Not["StoreCondition"]
)
Conditions = Sequence[StoreCondition]
"""Conditions that must all hold."""


@dataclass(frozen=True, slots=True)
class AnyText:
    """The field is one of these strings."""

    path: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Exactly:
    """The field equals this boolean, or this integer that a float cannot represent."""

    path: str
    value: bool | int


@dataclass(frozen=True, slots=True)
class Within:
    """The field is a number within these bounds: gt, gte, lt, lte."""

    path: str
    bounds: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class WithinDates:
    """The field is a date within these bounds: gt, gte, lt, lte."""

    path: str
    bounds: tuple[tuple[str, datetime], ...]


@dataclass(frozen=True, slots=True)
class IsEmpty:
    """The field is missing, null, or an empty list."""

    path: str


@dataclass(frozen=True, slots=True)
class HasNull:
    """The field is null, or a list with a null."""

    path: str


@dataclass(frozen=True, slots=True)
class HasText:
    """The field, or one element of a list, has all words of ``text``; with ``phrase``, one after another."""

    path: str
    text: str
    phrase: bool


@dataclass(frozen=True, slots=True)
class HasVector:
    """The point has a vector of this name."""

    name: str


FieldTest = AnyText | Exactly | Within | WithinDates | IsEmpty | HasNull | HasText
PointTest = FieldTest | IdIs | HasVector
Tests = PointTest | AllOf["Tests"] | OneOf["Tests"] | Not["Tests"]
"""A tree of tests."""


def field_is(name: str, *values: Scalar) -> FieldIs:
    """Return the condition that a top-level field has any of the values."""
    return FieldIs((name,), AnyOf(values))


def tests_of(condition: StoreCondition) -> Tests:
    """Return the tree of tests for a condition."""
    tests: Tests = mapped(condition, _tests_of_part)
    return tests


def _tests_of_part(condition: FieldIs | IdIs | LacksVector | Fitted) -> Tests:
    if isinstance(condition, Fitted):
        return condition.tests
    if isinstance(condition, IdIs):
        return condition
    if isinstance(condition, LacksVector):
        return Not(HasVector(condition.name))
    tests = [test for path in condition.paths for test in _at(path, condition.test)]
    if condition.instead:
        instead = _one(list(_at(condition.instead, condition.test)))
        tests.append(AllOf((IsEmpty(condition.paths[0]), instead)))
    return _one(tests)


def _at(path: str, test: Test) -> Iterator[Tests]:
    """Yield tests of the value at ``path``, one of which must pass."""
    if isinstance(test, AnyOf):
        yield from _any_of(path, test)
    elif isinstance(test, Between):
        yield Within(path, test.bounds)
    elif isinstance(test, During):
        yield WithinDates(path, test.bounds)
    elif isinstance(test, Exists):
        yield Not(IsEmpty(path))
    elif isinstance(test, IsNull):
        yield HasNull(path)
    elif isinstance(test, HasWords):
        # one test for each word, because the words may be in different elements of a list
        yield AllOf(tuple(HasText(path, part, phrase=False) for part in searchable_parts(test.text)))
    elif isinstance(test, HasPhrase):
        yield HasText(path, test.text, phrase=True)


def _any_of(path: str, test: AnyOf) -> Iterator[FieldTest]:
    if texts := tuple(value for value in test.values if isinstance(value, str)):
        yield AnyText(path, texts)
    for value in test.values:
        if isinstance(value, datetime):
            yield WithinDates(path, (("gte", value), ("lte", value)))
        elif isinstance(value, bool) or (isinstance(value, int) and abs(value) >= EXACT_INTEGER):
            yield Exactly(path, value)
        elif not isinstance(value, str):
            yield Within(path, (("gte", value), ("lte", value)))


def _one(tests: list[Tests]) -> Tests:
    return tests[0] if len(tests) == 1 else OneOf(tuple(tests))


def field_tests_of(conditions: Conditions) -> Iterator[FieldTest]:
    """Yield all tests of payload fields in the conditions."""
    for condition in conditions:
        yield from _fields(tests_of(condition))


def _fields(tests: Tests) -> Iterator[FieldTest]:
    if isinstance(tests, (AllOf, OneOf)):
        for each in tests.parts:
            yield from _fields(each)
    elif isinstance(tests, Not):
        yield from _fields(tests.part)
    elif not isinstance(tests, (IdIs, HasVector)):
        yield tests


def translated(conditions: Conditions, filter: Callable[..., T], test: Callable[[PointTest], Any]) -> T | None:
    """Return a store's filter that requires all conditions; None if the list is empty.

    ``filter`` is the store's class of filters, and ``test`` translates a single test.
    """

    def condition(tests: Tests) -> Any:
        if isinstance(tests, AllOf | OneOf) and not tests.parts:  # for a store, an empty filter is true
            none = test(IdIs(()))
            return none if isinstance(tests, OneOf) else filter(must_not=[none])
        if isinstance(tests, AllOf):
            return filter(must=list(map(condition, tests.parts)))
        if isinstance(tests, OneOf):
            return filter(should=list(map(condition, tests.parts)))
        if isinstance(tests, Not):
            return filter(must_not=[condition(tests.part)])
        return test(tests)

    return filter(must=[condition(tests_of(each)) for each in conditions]) if conditions else None
