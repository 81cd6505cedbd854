"""Adapt conditions to a store's payload indexes, so that an index makes a filter faster and never changes its results.

If a path has an index, the store tests the index and not the payload. Three kinds of tests are therefore changed:

- A range of dates on an index of numbers would give wrong results, and so would a range of numbers on an index of
  dates, which takes numbers for microseconds. Such a test becomes one that no point passes:
  ``records.payload_indexes`` makes sure that an index of numbers has no dates, and an index of dates no numbers.
- Equality with a text is first tested by the path's index of dates or of words, and then on the payload.
- Equality with an integer that a float cannot represent is first tested as a range of floats, and then exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from twinvec.retrieval.filters.conditions import AllOf, OneOf, mapped
from twinvec.retrieval.filters.instants import limit
from twinvec.retrieval.filters.words import searchable_parts
from twinvec_qdrant.stores.conditions import (
    AnyText,
    Conditions,
    Exactly,
    FieldTest,
    Fitted,
    HasText,
    HasVector,
    IdIs,
    LacksVector,
    PointTest,
    StoreCondition,
    Tests,
    Within,
    WithinDates,
    field_tests_of,
    tests_of,
)

NOTHING = IdIs(())
"""The test that no point passes."""

_ONLY_RIGHT = {Within: "float", WithinDates: "datetime", HasText: "text"}
"""For each kind of test, the only type of index that always answers it correctly."""


def fitted(conditions: Conditions, types: Mapping[str, str]) -> tuple[StoreCondition, ...]:
    """Return the conditions adapted to a store; ``types`` has the types of its payload indexes by path."""

    def fit(test: PointTest) -> Tests:
        return test if isinstance(test, IdIs | HasVector) else _fitted(test, types.get(test.path, ""))

    return tuple(
        each if isinstance(each, Fitted | IdIs | LacksVector) else Fitted(mapped(tests_of(each), fit))
        for each in conditions
    )


def unsure(conditions: Conditions, types: Mapping[str, str]) -> bool:
    """Return whether the conditions may find wrong points if an index has changed since ``types`` was read.

    A test with the right index counts as safe, because such an index changes only on request.
    """
    tests = field_tests_of([each for each in conditions if not isinstance(each, Fitted)])
    return any(types.get(test.path) != _ONLY_RIGHT[type(test)] for test in tests if type(test) in _ONLY_RIGHT)


def hides(conditions: Conditions, types: Mapping[str, str]) -> bool:
    """Return whether a condition finds nothing because of the type of an index (path -> type in ``types``).

    An index of numbers holds no dates, so a range of dates finds nothing in it; the same holds the other way round.
    """
    return any(_fitted(test, types.get(test.path, "")) is NOTHING for test in field_tests_of(conditions))


def _fitted(test: FieldTest, kind: str) -> Tests:
    if isinstance(test, WithinDates) and kind == "float":
        return NOTHING
    if isinstance(test, Within) and kind == "datetime":
        return NOTHING
    if isinstance(test, Exactly) and not isinstance(test.value, bool) and kind == "float":
        near = (("gte", math.nextafter(test.value, -math.inf)), ("lte", math.nextafter(test.value, math.inf)))
        return AllOf((Within(test.path, near), test))
    if isinstance(test, AnyText) and kind == "datetime":
        return _found_first(test, {text: _dated(test.path, text) for text in test.texts})
    if isinstance(test, AnyText) and kind == "text":
        return _found_first(test, {text: _worded(test.path, text) for text in test.texts})
    return test


def _found_first(test: AnyText, first: Mapping[str, Tests | None]) -> Tests:
    """Return the test that the field is any of the texts.

    ``first`` maps a text to the test of the index that a point must pass as well, or to None.
    """
    parts: list[Tests] = [AllOf((each, AnyText(test.path, (text,)))) for text, each in first.items() if each]
    if rest := tuple(text for text, each in first.items() if not each):
        parts.append(AnyText(test.path, rest))
    return parts[0] if len(parts) == 1 else OneOf(tuple(parts))


def _dated(path: str, text: str) -> Tests | None:
    moment = limit(text)
    return None if moment is None else WithinDates(path, (("gte", moment), ("lte", moment)))


def _worded(path: str, text: str) -> Tests | None:
    words = tuple(HasText(path, part, phrase=False) for part in searchable_parts(text))
    return AllOf(words) if words else None
