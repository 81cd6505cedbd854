"""Conditions fitted to the payload indexes of a store: the same answers, and faster.

An index answers in the place of the payload. Three tests are therefore made to fit it:

- An index of numbers also answers ranges of dates, and one of dates ranges of numbers, both wrongly: a number would be
  a moment in microseconds. No document has a date where numbers are indexed, nor a number where dates are
  (``records.payload_indexes`` holds to that), so these tests find nothing.
- A text that equals a date is searched for by the index of dates, and then compared as a text; in the same way, a text
  by the index of words.
- An integer that a float cannot represent is searched for as a float, and then compared as an integer.
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
"""The type of index that alone is sure to give the right answer to a test."""


def fitted(conditions: Conditions, types: Mapping[str, str]) -> tuple[StoreCondition, ...]:
    """Return the conditions as a store with payload indexes of these types, by path, has to test them."""

    def fit(test: PointTest) -> Tests:
        return test if isinstance(test, IdIs | HasVector) else _fitted(test, types.get(test.path, ""))

    return tuple(
        each if isinstance(each, Fitted | IdIs | LacksVector) else Fitted(mapped(tests_of(each), fit))
        for each in conditions
    )


def unsure(conditions: Conditions, types: Mapping[str, str]) -> bool:
    """Return whether the answer may be wrong if the index of a path has changed from its type in ``types``.

    A test that is known to have an index for it is sure enough: such an index changes only on request.
    """
    tests = field_tests_of([each for each in conditions if not isinstance(each, Fitted)])
    return any(types.get(test.path) != _ONLY_RIGHT[type(test)] for test in tests if type(test) in _ONLY_RIGHT)


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
    """Return the test of the texts; a text with a test in ``first``, which an index serves, must pass that one too."""
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
