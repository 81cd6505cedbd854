"""Conditions as trees of single tests, which every store translates to its own classes.

A test looks at one path. The value there passes if it is a list with an element that passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

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
    Test,
    mapped,
)
from twinvec.retrieval.filters.words import searchable_parts
from twinvec_qdrant.stores.conditions import Conditions, FieldIs, Fitted, IdIs, LacksVector, StoreCondition

IndexType = Literal["keyword", "bool", "integer", "float", "datetime", "text", "any"]
"""A payload index; "any" is one of whatever type."""


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


@dataclass(frozen=True, slots=True)
class WithinDates:
    """The field is a date within these bounds: gt, gte, lt, lte."""

    path: str
    bounds: tuple[tuple[str, datetime], ...]


@dataclass(frozen=True, slots=True)
class HasValue:
    """The field is neither missing, nor null, nor an empty list."""

    path: str


@dataclass(frozen=True, slots=True)
class HasNull:
    """The field is null, or a list with a null."""

    path: str


@dataclass(frozen=True, slots=True)
class HasText:
    """The field has all words of ``text``, with ``phrase`` one after another; a list has them in one element."""

    path: str
    text: str
    phrase: bool


@dataclass(frozen=True, slots=True)
class HasVector:
    """The point has a vector of this name."""

    name: str


FieldTest = AnyText | Exactly | Within | WithinDates | HasValue | HasNull | HasText
PointTest = FieldTest | IdIs | HasVector
Tests = PointTest | AllOf["Tests"] | OneOf["Tests"] | Not["Tests"]
"""A tree of tests."""


def tests_of(condition: StoreCondition) -> Tests:
    """Return the tests that decide about a condition."""
    tests: Tests = mapped(condition, _tests_of_part)
    return tests


def _tests_of_part(condition: FieldIs | IdIs | LacksVector | Fitted[Tests]) -> Tests:
    if isinstance(condition, Fitted):
        return condition.tests
    if isinstance(condition, IdIs):
        return condition
    if isinstance(condition, LacksVector):
        return Not(HasVector(condition.name))
    tests = [test for path in condition.paths for test in _at(path, condition.test)]
    if condition.instead:
        instead = _one(list(_at(condition.instead, condition.test)))
        tests.append(AllOf((Not(HasValue(condition.paths[0])), instead)))
    return _one(tests)


def needed_indexes(conditions: Conditions) -> set[tuple[str, IndexType]]:
    """Return the path and the type of every payload index that the conditions can use.

    A test of a number can use an integer index too.
    """
    return {(test.path, index_type(test)) for test in field_tests_of(conditions)}


def field_tests_of(conditions: Conditions) -> Iterator[FieldTest]:
    """Yield every test of a field."""
    for condition in conditions:
        yield from _fields(tests_of(condition))


def _at(path: str, test: Test) -> Iterator[Tests]:
    """Yield the tests of which one must pass."""
    if isinstance(test, AnyOf):
        yield from _any_of(path, test)
    elif isinstance(test, Between):
        yield Within(path, test.bounds)
    elif isinstance(test, During):
        yield WithinDates(path, test.bounds)
    elif isinstance(test, Exists):
        yield HasValue(path)
    elif isinstance(test, IsNull):
        yield HasNull(path)
    elif isinstance(test, HasWords):
        # one word a test: the words of a list may stand in several elements
        yield AllOf(tuple(HasText(path, part, phrase=False) for part in searchable_parts(test.text)))
    elif isinstance(test, HasPhrase):
        yield HasText(path, test.text, phrase=True)


def _any_of(path: str, test: AnyOf) -> Iterator[FieldTest]:
    if texts := tuple(value for value in test.values if isinstance(value, str)):
        yield AnyText(path, texts)
    for value in test.values:
        if isinstance(value, datetime):
            yield WithinDates(path, (("gte", value), ("lte", value)))
        elif isinstance(value, bool) or (isinstance(value, int) and abs(value) > EXACT_INTEGER):
            yield Exactly(path, value)
        elif not isinstance(value, str):
            yield Within(path, (("gte", value), ("lte", value)))


def _one(tests: list[Tests]) -> Tests:
    return tests[0] if len(tests) == 1 else OneOf(tuple(tests))


def _fields(tests: Tests) -> Iterator[FieldTest]:
    if isinstance(tests, (AllOf, OneOf)):
        for each in tests.parts:
            yield from _fields(each)
    elif isinstance(tests, Not):
        yield from _fields(tests.part)
    elif not isinstance(tests, (IdIs, HasVector)):
        yield tests


def index_type(test: FieldTest) -> IndexType:
    """Return the type of index that can answer a test."""
    if isinstance(test, AnyText):
        return "keyword"
    if isinstance(test, Exactly):
        return "bool" if isinstance(test.value, bool) else "integer"
    if isinstance(test, Within):
        return "float"
    if isinstance(test, WithinDates):
        return "datetime"
    return "text" if isinstance(test, HasText) else "any"
