"""Filters are checked: what the grammar allows, what it refuses, and by which words."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import numpy as np
import pytest

from twinvec.errors import FilterError
from twinvec.retrieval.filters import listed_keys, parse_filter
from twinvec.retrieval.filters.conditions import AllOf, AnyOf, Between, During, Exists, Field, Not, OneOf, split_key


def test_forms_of_one_condition():
    equal = [Field("lang", AnyOf(("en",)))]
    assert (
        parse_filter({"lang": "en"}) == parse_filter({"lang": {"eq": "en"}}) == parse_filter({"lang": ["en"]}) == equal
    )
    assert parse_filter({"lang": {"$in": ("en",)}}) == equal
    assert parse_filter({"and": [{"lang": "en"}]}) == [AllOf(tuple(equal))]
    assert parse_filter({"lang": {"ne": "en"}}) == parse_filter({"not": {"lang": "en"}}) == [Not(equal[0])]
    assert parse_filter({"lang": {"not_in": ["en"]}}) == parse_filter({"lang": {"$nin": ["en"]}}) == [Not(equal[0])]
    assert parse_filter({"lang": {"exists": False}}) == [Not(Field("lang", Exists()))]
    assert parse_filter(None) == parse_filter({}) == []


def test_both_limits_of_a_range_belong_together_and_other_operators_stand_alone():
    year = Field("year", Between((("gte", 2020), ("lt", 2024))))
    assert parse_filter({"year": {"lt": 2024, "gte": 2020}}) == [year]
    assert parse_filter({"year": {"gte": 2020, "ne": 2022, "lt": 2024}}) == [year, Not(Field("year", AnyOf((2022,))))]


def test_combinations_may_have_a_dollar_sign():
    parts = [{"lang": "en"}, {"year": 1, "lang": "de"}]
    en, year, de = (Field(key, AnyOf((value,))) for key, value in (("lang", "en"), ("year", 1), ("lang", "de")))
    for sign in ("", "$"):
        assert parse_filter({f"{sign}and": parts}) == [AllOf((en, AllOf((year, de))))]
        assert parse_filter({f"{sign}or": parts, "lang": "en"}) == [OneOf((en, AllOf((year, de)))), en]
        assert parse_filter({f"{sign}not": parts[1]}) == [Not(AllOf((year, de)))]


def test_payload_keys_named_like_combinations_keep_their_meaning():
    assert parse_filter({"and": "x", "or": ["x", 1], "not": True}) == [
        Field("and", AnyOf(("x",))),
        Field("or", AnyOf(("x", 1))),
        Field("not", AnyOf((True,))),
    ]
    assert parse_filter({"not": {"gte": 1}, "and": {"lt": 2}}) == [
        Field("not", Between((("gte", 1),))),
        Field("and", Between((("lt", 2),))),
    ]
    assert parse_filter({"not": {"text": "x"}}) == [Not(Field("text", AnyOf(("x",))))]


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("a.b", (("a", False), ("b", False))),
        ('"a.b"', (("a.b", False),)),
        ('a."b.c"', (("a", False), ("b.c", False))),
        ('"a.b"[].c', (("a.b", True), ("c", False))),
        ('"a.b[]".c', (("a.b[]", False), ("c", False))),
        ('."id"', (("id", False),)),
        ("[].b", (("[]", False), ("b", False))),
    ],
)
def test_a_part_of_a_key_that_has_a_dot_stands_in_quotes(key, parts):
    assert split_key(key) == parts
    assert parse_filter({key: 1}) == [Field(key, AnyOf((1,)))]


def test_limits_of_dates_are_moments():
    tokyo = timezone(timedelta(hours=9))
    for limit in ("2024-05-01", date(2024, 5, 1), datetime(2024, 5, 1), datetime(2024, 5, 1, 9, tzinfo=tokyo),
                  "2024-05-01T09:00:00+09:00", "2024-05-01 00:00", "2024-05-01T00:00:00Z"):  # fmt: skip
        assert parse_filter({"day": {"gte": limit}}) == [
            Field("day", During((("gte", datetime(2024, 5, 1, tzinfo=UTC)),)))
        ]
    assert parse_filter({"day": date(2024, 5, 1)}) == [Field("day", AnyOf((datetime(2024, 5, 1, tzinfo=UTC),)))]
    assert parse_filter({"day": "2024-05-01"}) == [Field("day", AnyOf(("2024-05-01",)))], "a text is a text"


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        ("year = 3", "a mapping of payload keys"),
        ([{"year": 3}], "a mapping of payload keys"),
        ({3: "x"}, "non-empty strings"),
        ({"": "x"}, "non-empty strings"),
        ({"year": None}, "'null': True"),
        ({"year": {"eq": None}}, "'null': True"),
        ({"year": object()}, "compare with strings, numbers, booleans or dates"),
        ({"year": {}}, "the mapping has no operator"),
        ({"year": {"near": 3}}, "unknown operator 'near'; known operators: eq, ne, in"),
        ({"year": {7: 3}}, "unknown operator 7"),
        ({"author": {"name": "Ada"}}, "'author.name' for a nested key"),
        ({"year": {"gte": 1, "$gte": 2}}, "'gte' is given twice"),
        ({"year": {"not_in": [1], "nin": [2]}}, "'not_in' is given twice"),
        ({"year": {"eq": [1]}}, "use in or not_in"),
        ({"year": {"ne": [1]}}, "use in or not_in"),
        ({"year": {"in": 1}}, "in and not_in take a list"),
        ({"year": np.array([1])}, "compare with strings, numbers, booleans or dates"),
        ({"year": np.datetime64("NaT", "s")}, "'null': True"),
        ({"a..b": 1}, "each part of a key must be non-empty"),
        ({"not": {'a"b': 1}}, "without double quote and backslash"),
        ({"a.b.c.d.e.f": 1}, "the key has 6 parts, and the limit is 5"),
        ({'a."b.c': 1}, 'a part that has a dot is written in double quotes, as "a.b"'),
        ({'""': 1}, "must be non-empty"),
        ({'"a"b': 1}, "without double quote and backslash"),
        ({"year": {"in": [None]}}, "'null': True"),
        ({"year": {"gte": "soon"}}, "number, or a date in ISO 8601"),
        ({"year": {"gte": "2024"}}, "number, or a date in ISO 8601"),
        ({"year": {"gte": "2024-5-1"}}, "number, or a date in ISO 8601"),
        ({"year": {"gte": "2024-13-01"}}, "number, or a date in ISO 8601"),
        ({"year": {"gte": "0001-01-01T00:00:00+05:00"}}, "number, or a date in ISO 8601"),
        ({"year": {"gte": True}}, "gte takes a number or a date, not True"),
        ({"year": {"lt": None}}, "lt takes a number or a date"),
        ({"year": {"lt": [3]}}, "lt takes a number or a date"),
        ({"year": {"gte": 3, "lt": "2024-05-01"}}, "all numbers or all dates"),
        ({"year": {"lt": math.nan}}, "finite numbers"),
        ({"year": {"lt": 10**400}}, "64 bits"),
        ({"year": 2**63}, "64 bits"),
        ({"year": {"ne": math.inf}}, "finite numbers"),
        ({"year": {"exists": 1}}, "take true or false"),
        ({"year": {"null": None}}, "take true or false"),
        ({"body": {"text": 3}}, "take a text"),
        ({"body": {"text": ["a"]}}, "take a text"),
        ({"body": {"text": " "}}, "has no word"),
        ({"body": {"phrase": "!?"}}, "has no word"),
        ({"body": {"text": "\ud800"}}, "body"),
        ({"tags": "\ud800"}, "tags"),
        ({"\ud800": "x"}, "surrogate"),
        ({"tags[]": "x"}, r"'tags\[\]': write 'tags', which finds a list by any of its elements"),
        ({"a[].tags[]": {"ne": "x"}}, r"write 'a\[\].tags'"),
        ({"and": {"lang": "en"}}, "expected a list of filters"),
        ({"$or": {}}, "expected a list of filters"),
        ({"$and": "x"}, "expected a list of filters"),
        ({"or": [{"lang": "en"}, "x"]}, "'or': expected a filter"),
        ({"or": [{"lang": "en"}, {}]}, "'or': expected a filter"),
        ({"not": [{"lang": "en"}]}, "'not': expected a filter"),
        ({"$not": "x"}, "'\\$not': expected a filter"),
        ({"not": {}}, "'not': expected a filter"),
        ({"and": [{"or": [{"year": {"above": 1}}]}]}, "'year': unknown operator 'above'"),
    ],
)
def test_a_malformed_filter_is_refused_by_name(wanted, named):
    with pytest.raises(FilterError, match=named):
        parse_filter(wanted)


def test_scalars_of_numpy_are_values():
    may = datetime(2024, 5, 1, tzinfo=UTC)
    for given, plain in (
        ({"a": np.int64(3), "b": [np.float32(1.5), np.str_("x")]}, {"a": 3, "b": [1.5, "x"]}),
        ({"a": {"ne": np.bool_(True), "exists": np.bool_(False)}}, {"a": {"ne": True, "exists": False}}),
        ({"a": {"gte": np.int8(1), "lt": np.float64(2)}}, {"a": {"gte": 1, "lt": 2.0}}),
        ({"a": np.datetime64("2024-05-01", "ns")}, {"a": may}),
        ({"a": {"gt": np.datetime64("2024-05-01")}}, {"a": {"gt": may}}),
    ):
        assert parse_filter(given) == parse_filter(plain), given


def test_whole_numbers_and_uuids_are_texts_on_id_alone():
    key = UUID(int=7)
    for number in (5, np.int64(5), np.uint8(5)):
        assert parse_filter({"id": number}) == [Field("id", AnyOf(("5",)))]
        assert parse_filter({"not": {"id": {"in": ["a", number]}}}) == [Not(Field("id", AnyOf(("a", "5"))))]
        assert parse_filter({".id": number, "ref": {"eq": number}}) == [
            Field(".id", AnyOf((5,))),
            Field("ref", AnyOf((5,))),
        ]
    assert parse_filter({"id": {"ne": key}}) == [Not(Field("id", AnyOf((str(key),))))]
    assert parse_filter({"id": [True, 5.0]}) == [Field("id", AnyOf((True, 5.0)))]


def test_long_values_are_cut_in_messages():
    long = "x" * 100_000
    for wrong in ({long: {"eq": []}}, {"a": {"text": "!" * 100_000}}, {"a": {"eq": [long]}}, {"a": {"gt": long}}):
        with pytest.raises(FilterError) as caught:
            parse_filter(wrong)
        assert len(str(caught.value)) < 2000


def test_filters_are_no_deeper_than_they_can_be_evaluated():
    wanted = {"lang": "en"}
    for _ in range(15):
        wanted = {"not": wanted}
    assert parse_filter(wanted)
    with pytest.raises(FilterError, match="16 levels"):
        parse_filter({"and": [wanted]})
    endless: dict = {}
    endless["not"] = endless
    with pytest.raises(FilterError, match="16 levels"):
        parse_filter(endless)


@pytest.mark.parametrize(
    ("wanted", "listed"),
    [
        ({"team": "a", "year": {"gte": 1}}, {"team"}),
        ({"team": ["a", "b"]}, {"team"}),
        ({"and": [{"year": 1}, {"$and": [{"team": {"eq": "a", "ne": "b"}}]}]}, {"year", "team"}),
        ({"or": [{"team": "a", "year": 1}, {"team": {"in": ["b"]}}]}, {"team"}),
        ({"or": [{"team": "a"}, {"year": 1}]}, set()),
        ({"not": {"team": "a"}}, set()),
        ({"not": {"not": {"team": "a"}}}, set()),
        ({"team": {"ne": "a"}}, set()),
        ({"team": {"not_in": ["a"]}}, set()),
        ({"team": {"exists": True}}, set()),
        ({"team": {"text": "a"}}, set()),
        ({"team": {"gte": "2024-05-01"}}, set()),
        ({}, set()),
    ],
)
def test_keys_that_are_one_of_listed_values_are_known(wanted, listed):
    assert listed_keys(parse_filter(wanted)) == listed
