"""What filters mean, by example; ``tests/congruence/test_filters.py`` holds the stores to the same meaning."""

from __future__ import annotations

from datetime import date

import pytest

from twinvec.retrieval.filters import matches, parse_filter

PAYLOAD = {
    "team": "hr",
    "year": 2024,
    "price": 1.0,
    "open": True,
    "none": None,
    "empty": [],
    "tags": ["red apple", "green", None],
    "sizes": [1, 9],
    "day": "2024-05-01T10:30:00+02:00",
    "author": {"name": "Ada", "papers": [{"year": 1843, "tags": ["a", "b"]}, {"year": 1844}]},
    "note": "An under_scored, Naïve note.",
    "large": 2**53 + 1,
    "hindi": "हिन्दी पाठ",
}


@pytest.mark.parametrize(
    ("wanted", "holds"),
    [
        ({"team": "hr"}, True),
        ({"team": ["it", "hr"]}, True),
        ({"team": {"ne": "hr"}}, False),
        ({"missing": {"ne": "hr"}}, True),
        ({"missing": {"not_in": ["hr"]}}, True),
        ({"not": {"missing": "hr"}}, True),
        ({"missing": "hr"}, False),
        ({"price": 1}, True),
        ({"price": True}, False),
        ({"open": 1}, False),
        ({"open": True}, True),
        ({"year": "2024"}, False),
        ({"year": {"gte": 2024, "lt": 2025}}, True),
        ({"open": {"gte": 0}}, False),
        ({"sizes": {"gt": 1, "lt": 9}}, False),
        ({"and": [{"sizes": {"gt": 1}}, {"sizes": {"lt": 9}}]}, True),
        ({"sizes": {"ne": 1}}, False),
        ({"none": {"exists": True}}, False),
        ({"empty": {"exists": True}}, False),
        ({"missing": {"exists": False}}, True),
        ({"tags": {"exists": True}}, True),
        ({"author": {"exists": True}}, True),
        ({"none": {"null": True}}, True),
        ({"missing": {"null": True}}, False),
        ({"missing": {"null": False}}, True),
        ({"tags": {"null": True}}, True),
        ({"author.name": "Ada"}, True),
        ({"author[].name": "Ada"}, False),
        ({"author.papers.year": 1844}, True),
        ({"author.papers[].year": 1844}, True),
        ({"author.papers.tags": "b"}, True),
        ({"author.papers[].tags[].x": {"exists": True}}, False),
        ({"day": {"gte": "2024-05-01T08:30:00Z", "lte": "2024-05-01T08:30"}}, True),
        ({"day": {"lt": date(2024, 5, 1)}}, False),
        ({"year": {"gte": "2020-01-01"}}, False),
        ({"day": {"gte": 1}}, False),
        ({"tags": {"text": "Green RED"}}, True),
        ({"tags": {"text": "gre"}}, False),
        ({"tags": {"phrase": "red apple"}}, True),
        ({"tags": {"phrase": "apple green"}}, False),
        ({"note": {"phrase": "scored naïve"}}, True),
        ({"note": {"text": "naive"}}, False),
        ({"year": {"text": "2024"}}, False),
        ({"hindi": {"text": "पाठ"}}, True),
        ({"hindi": {"text": "ह"}}, False),
        ({"large": 2**53 + 1}, True),
        ({"large": 2**53}, False),
        ({"large": 2**53 + 2}, False),
        ({"large": {"lte": 2**53}}, True),
        ({"id": ["a", "b"]}, True),
        ({"id": {"ne": "a"}}, False),
        ({"or": [{"team": "it"}, {"year": 2024}]}, True),
        ({"or": [{"team": "it"}, {"year": 2023}]}, False),
        ({"team": "hr", "not": {"year": {"gt": 2024}}}, True),
    ],
)
def test_what_a_filter_means(wanted, holds):
    assert matches(parse_filter(wanted), "a", PAYLOAD) is holds


def test_numbers_beyond_a_float_are_larger_than_every_limit():
    conditions = parse_filter({"n": {"gt": 1e300}})
    assert matches(conditions, "a", {"n": 10**400})
    assert not matches(conditions, "a", {"n": -(10**400)})


def test_white_space_behind_a_date_is_read_once():
    """With quadratic cost, a million spaces would take hours."""
    conditions = parse_filter({"day": {"gte": "2024-01-01"}})
    assert not matches(conditions, "d", {"day": f"2024-01-01{' ' * 10**6}10:30:00 x"})
    assert matches(conditions, "d", {"day": f"2024-01-01{' ' * 10**6}10:30:00"})


class CountedText(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    __hash__ = str.__hash__
    comparisons = 0

    def __eq__(self, other):
        CountedText.comparisons += 1
        return str.__eq__(self, other)


def test_many_values_are_looked_up_and_not_compared_one_by_one():
    names = [CountedText(number) for number in range(100)]
    conditions = parse_filter({"id": {"in": names}})
    assert all(matches(conditions, str(name), {}) for name in range(100))
    assert not matches(conditions, "100", {})
    assert 0 < CountedText.comparisons < 1000
