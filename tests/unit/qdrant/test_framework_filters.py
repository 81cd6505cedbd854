"""Qdrant's filters in twinvec's language: the same documents as Qdrant's own client finds, or an error."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from twinvec.errors import FilterError
from twinvec.retrieval.filters import matches, parse_filter
from twinvec_qdrant import understood_filter

PAYLOADS: list[dict[str, Any]] = [
    {"team": "hr", "year": 2019, "tags": ["a", "b"], "id": "x", "text": "the red fox", "author": {"name": "ada"}},
    {"team": "it", "year": 2020.5, "tags": [], "id": "y", "text": "a fox that is red", "day": "2024-05-01"},
    {"team": "hr", "year": 2021, "tags": None, "flag": True, "day": "2024-06-01T12:00:00Z"},
    {"year": 2022, "author": {"name": "bob"}, "a b": 1, "flag": False},
    {},
]


@pytest.fixture(scope="module")
def theirs() -> QdrantClient:
    client = QdrantClient(":memory:")
    client.create_collection("c", models.VectorParams(size=1, distance=models.Distance.DOT))
    points = [models.PointStruct(id=n, vector=[1.0], payload={"metadata": each}) for n, each in enumerate(PAYLOADS)]
    client.upsert("c", points)
    return client


def field(key: str, **condition: Any) -> models.FieldCondition:
    return models.FieldCondition(key=f"metadata.{key}", **condition)


HR = field("team", match=models.MatchValue(value="hr"))
LATE = field("year", range=models.Range(gte=2020))
TAGGED = field("tags", match=models.MatchAny(any=["b", "c"]))
FILTERS = [
    models.Filter(),
    models.Filter(must=[HR]),
    models.Filter(must=HR),
    models.Filter(must=[HR, LATE]),
    models.Filter(must=[HR], should=[LATE, TAGGED]),
    models.Filter(should=[HR, LATE, TAGGED]),
    models.Filter(must_not=[HR]),
    models.Filter(must_not=[HR, LATE]),
    models.Filter(must_not=[models.Filter(must=[HR, LATE])]),
    models.Filter(min_should=models.MinShould(conditions=[HR, LATE, TAGGED], min_count=2)),
    models.Filter(min_should=models.MinShould(conditions=[HR, LATE], min_count=3)),
    models.Filter(must=[field("team", match=models.MatchExcept(**{"except": ["hr"]}))]),
    models.Filter(must=[field("year", match=models.MatchValue(value=2021))]),
    models.Filter(must=[field("flag", match=models.MatchValue(value=True))]),
    models.Filter(must=[field("year", range=models.Range(gt=2019, lt=2022))]),
    models.Filter(must=[field("day", range=models.DatetimeRange(gte=datetime(2024, 5, 15, tzinfo=UTC)))]),
    models.Filter(must=[field("author.name", match=models.MatchValue(value="ada"))]),
    models.Filter(must=[field("id", match=models.MatchValue(value="x"))]),
    models.Filter(must=[field('"a b"', match=models.MatchValue(value=1))]),
    models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="metadata.tags"))]),
    models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="metadata.tags"))]),
    models.Filter(must=[field("text", match=models.MatchPhrase(phrase="red fox"))]),
]


@pytest.mark.parametrize("filter", FILTERS, ids=lambda each: str(each.model_dump(exclude_none=True))[:60])
def test_a_filter_finds_what_qdrants_client_finds(theirs, filter) -> None:
    expected = {point.id for point in theirs.scroll("c", filter, limit=99)[0]}
    conditions = parse_filter(understood_filter(filter))
    assert {n for n, payload in enumerate(PAYLOADS) if matches(conditions, f"d{n}", payload)} == expected


def test_the_cases_tell_filters_apart(theirs) -> None:
    found = {tuple(sorted(point.id for point in theirs.scroll("c", each, limit=99)[0])) for each in FILTERS}
    assert len(found) > 8


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (models.Filter(must=[field("text", match=models.MatchText(text="red fox"))]), {0, 1}),
        (models.Filter(must=[field("text", match=models.MatchTextAny(text_any="that nothing"))]), {1}),
        (models.Filter(must=[models.HasIdCondition(has_id=["d1", "d3"])]), {1, 3}),
        ({"metadata.team": "hr", "metadata.year": {"gte": 2020}}, {2}),
        ({"$or": [{"metadata.team": "it"}, {"not": {"metadata.year": {"exists": True}}}]}, {1, 4}),
        ({"metadata.id": "x"}, {0}),
        ({".id": ["x", "y"]}, {0, 1}),
        ({"id": "d1"}, {1}),
        ({"team": "hr"}, {0, 2}),
        (None, {0, 1, 2, 3, 4}),
    ],
)
def test_keys_may_have_qdrants_form(filter, expected) -> None:
    conditions = parse_filter(understood_filter(filter))
    assert {n for n, payload in enumerate(PAYLOADS) if matches(conditions, f"d{n}", payload)} == expected


@pytest.mark.parametrize(
    ("filter", "named"),
    [
        (models.Filter(must=[field("tags", values_count=models.ValuesCount(gt=1))]), "values_count"),
        (
            models.Filter(
                must=[field("at", geo_radius=models.GeoRadius(center=models.GeoPoint(lon=1, lat=1), radius=1))]
            ),
            "geo_radius",
        ),
        (
            models.Filter(must=[models.NestedCondition(nested=models.Nested(key="a", filter=models.Filter()))]),
            "NestedCondition",
        ),
        (models.Filter(must=[models.HasVectorCondition(has_vector="dense")]), "HasVectorCondition"),
        ("team = hr", "got str"),
        ([{"team": "hr"}], "got list"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(filter, named) -> None:
    with pytest.raises(FilterError, match=named):
        understood_filter(filter)


def test_a_filter_that_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["or"] = [{"team": "hr"}, endless]
    with pytest.raises(FilterError, match="nested too deeply"):
        understood_filter(endless)


def test_a_key_that_contains_a_dot_is_found() -> None:
    dotted = models.Filter(must=[models.FieldCondition(key='metadata."a.b"', match=models.MatchValue(value=1))])
    conditions = parse_filter(understood_filter(dotted))
    assert matches(conditions, "d", {"a.b": 1})
    assert not matches(conditions, "d", {"a": {"b": 1}})
    broken = models.Filter(must=[models.FieldCondition(key='metadata.a"b', match=models.MatchValue(value=1))])
    with pytest.raises(FilterError, match="expected a payload path"):
        understood_filter(broken)
