"""One filter, one answer: the index in memory and every store agree on documents with values of every kind."""

from __future__ import annotations

import itertools
import os
import random
from datetime import date, datetime, timedelta, timezone
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models

from cases import few_quick
from stand_in import StandIn
from twinvec import Document, MemoryIndex
from twinvec.errors import FilterError
from twinvec.retrieval.filters import matches, matches_all, parse_filter
from twinvec_qdrant import Collection, drop_collection
from twinvec_qdrant.records.schema import CHUNKS, filter_conditions
from twinvec_qdrant.stores.server.limits.narrowing import narrowed
from twinvec_qdrant.stores.server.limits.permitted import Limits
from twinvec_qdrant.stores.server.values import client_filter
from words import WordEncoder

SCALARS = [
    *(0, 1, 1.0, 1.5, -2, 2.0, 2**53, 2**53 + 1, True, False, None),
    *("", "1", "true", "x", "red apple", "Red, APPLE pie!", "apple-red", "redapple", "apple", "naïve Straße 42"),
    *("2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01T02:00:00+02:00", "2024-05-01 10:30", "2024-5-2", "2024-05"),
]
LISTS = [[], [None], [None, 1], [1, "x"], [1.5, True], ["red", "apple"], ["x", "2024-05-01"], [[]], [[1]], [{}]]
NESTED = [{"b": 1}, {"b": None}, {"b": []}, {"c": {"d": "x"}}, {"b": {"d": 1.5}}, {}, [{"b": 1}, {"b": "red apple"}]]
KEYS = ["a", "b", "a.b", "a[].b", "a.b.d", "a.c.d", "a[].c[].d", "id", "missing", "with space", "and", "a.0"]
KEYS += ['"a.b"', 'a."b.c"', '"a.b"[].c']
TEXT_KEYS = ["a", "b", "a.b", "a[].b", "a.b.d", "missing", "with space"]


def payloads() -> list[dict]:
    """Payloads with each value alone, and with random pairs."""
    chosen, values = random.Random(17), [*SCALARS, *LISTS, *NESTED]
    found = [{}, {"with space": "x"}, {"and": 1, "x": "y"}, {"a": [[{"b": 1}]]}, {"a": [{"c": [{"d": "x"}]}, 3]}]
    found += [{"a.b": 1, "a": {"b": "x"}}, {"a": {"b.c": 1.5}}, {"a": [{"b.c": "x"}]}, {"a.b": [{"c": 1}]}]
    found += [{"a": value} for value in values] + [{"a": {"b": value}} for value in values]
    found += [{"a": [{"b": value}, {"c": 0}]} for value in values]
    return found + [{"a": chosen.choice(values), "b": chosen.choice(values)} for _ in range(60)]


DOCUMENTS = [Document(f"{row:03}", f"tea {row}", "", payload) for row, payload in enumerate(payloads())]
VALUES = st.sampled_from(
    [
        *(value for value in SCALARS if value is not None),
        *(date(2024, 5, 1), datetime(2024, 5, 1, 2, tzinfo=timezone(timedelta(hours=2))), "007"),
    ]
)
DATES = ["2024-05-01", "2024-05-01T10:30:00Z", "2024-05-01 02:00:00+02:00", date(2024, 5, 2), datetime(2024, 5, 1)]
BOUNDS = st.sampled_from(["gt", "gte", "lt", "lte"])
RANGES = st.one_of(
    st.dictionaries(BOUNDS, st.sampled_from([0, 1, 1.0, 1.5, -7, 2**53, 1e300]), min_size=1, max_size=2),
    st.dictionaries(BOUNDS, st.sampled_from(DATES), min_size=1, max_size=2),
)
TEXTS = st.sampled_from(
    ["apple", "RED apple", "apple red", "red-apple", "straße", "x", "42 naïve", "pie apple", "2024"]
)
TESTS = st.one_of(
    VALUES,
    st.lists(VALUES, max_size=3),
    RANGES,
    st.fixed_dictionaries({}, optional={"eq": VALUES, "ne": VALUES, "$exists": st.booleans()}).filter(bool),
    st.dictionaries(st.sampled_from(["in", "$nin"]), st.lists(VALUES, max_size=3), min_size=1),
)
TEXT_TESTS = st.fixed_dictionaries({}, optional={"text": TEXTS, "phrase": TEXTS, "null": st.booleans()}).filter(bool)
FIELDS = st.one_of(
    st.dictionaries(st.sampled_from(KEYS), TESTS, min_size=1, max_size=2),
    st.dictionaries(st.sampled_from(TEXT_KEYS), TEXT_TESTS, min_size=1, max_size=2),
)
FILTERS = st.recursive(
    FIELDS,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["and", "$or", "or"]), st.lists(inner, max_size=3), min_size=1),
        inner.map(lambda one: {"not": one}),
        st.tuples(inner, inner).map(lambda two: {**two[0], "$and": [two[1]]}),
    ),
    max_leaves=5,
)
WORD_INDEXES = dict.fromkeys(TEXT_KEYS, "text")
INDEXES = {
    "embedded": None,
    "without indexes": False,
    "text indexes": WORD_INDEXES,
    "stand-in": WORD_INDEXES,
    "server": WORD_INDEXES,
    "other indexes": {"a": "bool", "b": "keyword", "a.b": "geo"},
}


PLACES = [*INDEXES, "client"]


@pytest.fixture(
    scope="module",
    params=few_quick(PLACES, ["embedded", "server"]),
)
def stored(request, tmp_path_factory):
    """The documents in each store, and in the embedded store with each kind of payload index."""
    name, running = f"twinvec-{uuid4().hex}", None
    if request.param == "client":
        place = {"client": QdrantClient(":memory:")}
    elif request.param == "stand-in":
        running = StandIn().running()
        place = {"url": running.__enter__().url}
    elif request.param != "server":
        place = {"path": tmp_path_factory.mktemp("store")}
    elif not (place := {"url": os.environ.get("QDRANT_URL")})["url"]:
        pytest.skip("no Qdrant server: set QDRANT_URL (and QDRANT_API_KEY) to run the suite on one")
    indexes = INDEXES.get(request.param)
    with Collection.open(name, encoder=WordEncoder(), chunking=False, payload_indexes=indexes, **place) as collection:
        collection.ingest(DOCUMENTS)
        assert bool(collection.info().get("payload_indexes")) == (request.param not in ("client", "without indexes"))
        yield collection
    if request.param == "server":
        drop_collection(name, **place)
    if running is not None:
        running.__exit__(None, None, None)


def answers(collection: Collection, wanted: dict) -> set[str]:
    """The ids of the documents that the store finds."""
    conditions = [CHUNKS, *filter_conditions(parse_filter(wanted))]
    return {point.payload["source"] for point in collection._catalog.backend.scroll(conditions, ["source"])}


_MEANT: dict[str, set[str]] = {}  # by what a filter looks like, in which 1, 1.0 and True differ


def truth(wanted: dict) -> set[str]:
    """The ids of the documents that the filter means, which is the same for every store."""
    shown = repr(wanted)
    if shown not in _MEANT:
        conditions = parse_filter(wanted)
        _MEANT[shown] = {each.id for each in DOCUMENTS if matches(conditions, each.id, each.payload)}
    return _MEANT[shown]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(wanted=FILTERS)
def test_every_store_finds_what_the_filter_means(stored, wanted):
    assert answers(stored, wanted) == truth(wanted)


def test_every_operator_on_every_value_alone(stored):
    tried, found = 0, set()
    values = [value for value in SCALARS if value is not None]
    wanted = [{name: value} for value in values for name in ("eq", "ne")]
    wanted += [{name: limit} for limit in (1, 1.5, *DATES) for name in ("gt", "gte", "lt", "lte")]
    wanted += [{name: yes} for name in ("exists", "null") for yes in (True, False)]
    wanted += [{name: text} for name in ("text", "phrase") for text in ("apple", "red apple", "apple red")]
    for key, operators in itertools.product(("a", "a.b", "a[].b"), wanted):
        expected = truth({key: operators})
        assert answers(stored, {key: operators}) == expected, (key, operators)
        found.add(frozenset(expected))
        tried += 1
    assert tried > 200
    assert len(found) > 60, "the filters find different documents"


@pytest.mark.parametrize("key", ['"a.b"', 'a."b.c"', '"a.b".c', '"a.b"[].c'])
def test_a_key_that_has_a_dot_stands_in_quotes(stored, key):
    for wanted in ({key: {"exists": True}}, {key: [1, "x"]}, {key: {"gte": 1}}):
        assert answers(stored, wanted) == truth(wanted) != set()
    assert truth({key: {"exists": True}}) != truth({key.replace('"', ""): {"exists": True}})


EMPTY = [
    ({"a": []}, False),
    ({"a": {"in": []}}, False),
    ({"a": {"not_in": []}}, True),
    ({"id": []}, False),
    ({"or": []}, False),
    ({"$or": ()}, False),
    ({"and": []}, True),
    ({"not": {"and": []}}, False),
    ({"not": {"or": []}}, True),
    ({"not": {"a": []}}, True),
    ({"or": [{"a": []}, {"b": {"not_in": []}}]}, True),
    ({"or": [{"a": []}, {"or": []}]}, False),
    ({"and": [{"a": {"not_in": []}}, {"b": []}]}, False),
    ({"a": {"in": [], "not_in": []}}, False),
]
"""Filters with empty lists, and whether every document satisfies them; else none does."""


def test_empty_lists_find_nothing_or_everything(stored):
    index = MemoryIndex(WordEncoder(), DOCUMENTS)
    everything = {each.id for each in DOCUMENTS}
    for wanted, holds in EMPTY:
        expected = everything if holds else set()
        assert answers(stored, wanted) == truth(wanted) == expected, wanted
        assert set(stored.find(wanted)) == expected
        assert {hit.id for hit in stored.search("tea", 999, "dense", wanted)} == expected
        assert {hit.id for hit in index.search("tea", 999, wanted, mode="dense")} == expected
        assert matches_all(parse_filter(wanted)) is holds
    some = {"or": [{"a": []}, {"b": 1}]}
    assert answers(stored, some) == truth(some) == truth({"b": 1}) != set()
    assert not matches_all(parse_filter(some))
    assert matches_all(parse_filter({}))
    assert matches_all(parse_filter({"or": [{"b": 1}, {"a": {"not_in": []}}]}))


def test_searches_and_finds_take_the_same_filters(stored):
    wanted = {"or": [{"a": {"gte": "2024-05-01"}}, {"not": {"a": {"exists": True}}}], "a.b": {"ne": 1}}
    expected = truth(wanted)
    assert 10 < len(expected) < len(DOCUMENTS) - 10
    assert set(stored.find(wanted)) == expected
    assert {hit.id for hit in stored.search("tea", len(DOCUMENTS), "dense", wanted)} == expected
    assert sorted(stored.find({})) == sorted(stored.find())


def test_notes_take_the_same_filters(stored):
    notes = stored.notes("filters")
    notes.put({each.id: each.payload for each in DOCUMENTS})
    assert {key for key, _ in notes.find({"a": {"not_in": []}})} == {each.id for each in DOCUMENTS}
    assert list(notes.find({"a": []})) == []
    for wanted in ({"a": {"ne": 1}, "b": {"exists": True}}, {"or": [{"a.b": {"null": True}}, {"a": {"gt": 1}}]}):
        expected = truth(wanted)
        assert 5 < len(expected) < len(DOCUMENTS) - 5
        assert {key for key, _ in notes.find(wanted)} == expected


def test_the_fields_that_hits_show_are_filtered_alike(tmp_path):
    own = [{}, {"source": "x"}, {"position": 3}, {"heading": None, "title": []}, {"title": "T"}, {"source": ["b", "y"]}]
    documents = [Document(f"{row}{title}", "tea", title, each) for row, each in enumerate(own) for title in ("", "T")]
    values = {"source": ["0T", "x", "b"], "position": [0, 3], "heading": ["", "T"], "title": ["T", ""]}
    index, found = MemoryIndex(WordEncoder(), documents), set()
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as collection:
        collection.ingest(documents)
        for key, chosen in values.items():
            tests = [each for value in chosen for each in (value, {"ne": value})]
            for test in [*tests, chosen, {"exists": True}, {"exists": False}]:
                expected = set(collection.find({key: test}))
                assert {hit.id for hit in index.search("tea", 99, {key: test}, mode="dense")} == expected, (key, test)
                found.add(frozenset(expected))
        for key in ("a..b", 'a"b', "a\\b", ".", "a.b.c.d.e.f"):
            for use in (collection.find, lambda wanted: index.search("tea", filter=wanted)):
                with pytest.raises(FilterError, match=r"each part of a key must be non-empty|the limit is 5"):
                    use({key: 1})
    assert len(found) > 10


@pytest.fixture(scope="module")
def payloads_alone():
    """The payloads in the client's local mode, and the filters of a server's client."""
    client = QdrantClient(":memory:")
    client.create_collection("payloads", vectors_config={})
    payloads = [{"kind": "chunk", "source": each.id, "metadata": each.payload} for each in DOCUMENTS]
    client.upsert(
        "payloads", [models.PointStruct(id=row, vector={}, payload=each) for row, each in enumerate(payloads)]
    )
    yield client
    client.close()


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(wanted=FILTERS, values=st.sampled_from([1, 2, None]), conditions=st.sampled_from([4, 6, 12]))
def test_filters_cut_to_a_servers_limits_find_the_same(payloads_alone, wanted, values, conditions):
    whole = client_filter([CHUNKS, *filter_conditions(parse_filter(wanted))])
    parts = narrowed(whole, Limits(values=values, conditions=conditions))
    found = [payloads_alone.scroll("payloads", part, limit=len(DOCUMENTS))[0] for part in parts]
    assert {point.payload["source"] for points in found for point in points} == truth(wanted)
