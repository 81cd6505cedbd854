"""An index of a payload key never changes an answer: filters find the same with each kind of index and without."""

from __future__ import annotations

import random
from datetime import date, datetime
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cases import slow
from stand_in import StandIn
from twinvec import Document
from twinvec.retrieval.filters import matches, parse_filter
from twinvec_qdrant import Collection
from twinvec_qdrant.records.schema import CHUNKS, filter_conditions
from words import WordEncoder

BIG = 2**53 + 1
DAYS = ["2024-05-01", "2024-05-01T00:00:00Z", "2024-05-01T02:00:00+02:00", "2024-05-01T00:00:00.1234567Z", "2023-02-28"]
IDS = [
    "6b1c3c0e-8a5d-5d0b-9a53-7f0d5b1a2c44",
    "6B1C3C0E-8A5D-5D0B-9A53-7F0D5B1A2C44",
    "6b1c3c0e8a5d5d0b9a537f0d5b1a2c44",
]
TEXTS = ["red apple", "Red, APPLE pie", "apple", "x", "", "!?", "1", "true"]
MICROSECONDS = 1_714_521_600_000_000  # of the first day
VALUES = {
    "n": [0, 1, 1.0, 1.5, -2, BIG, MICROSECONDS, [1, 2.5], [], None, True, "x"],
    "d": [*DAYS, "someday", "2024-5-2", ["2023-02-28", "x"], [], None, True],
    "t": [*TEXTS, ["red", "apple"], ["red apple", "x"], None, 1.5],
    "u": [*IDS, "x", [IDS[1], "y"]],
    "f": [True, False, [True, None], "true", 1],
    "m": [1, 1.5, MICROSECONDS, *DAYS, "x", [1, DAYS[0]], True],
    "g": [{"lat": 1.0, "lon": 2.0}, {"lon": 1.5, "lat": 2.5}, "x"],
}
KEYS = [*VALUES, "o.n", "o.d", "o[].n", "g.lat", "id", "missing"]


def documents() -> list[Document]:
    """Documents with random values; those of the first half have no date under ``m`` and no number under ``late``."""
    chosen = random.Random(4)
    payloads = []
    for row in range(160):
        payload = {key: chosen.choice(values) for key, values in VALUES.items() if chosen.random() < 0.7}
        nested = [{"n": chosen.choice(VALUES["n"]), "d": chosen.choice(VALUES["d"])} for _ in range(2)]
        payload["o"] = chosen.choice([nested, nested[0], [], [nested[1], 3]])
        if row < 80:
            payload["m"] = chosen.choice([1, 1.5, MICROSECONDS, [2, 3]])
        payloads.append(payload)
    return [Document(f"{row:03}", f"tea {row}", "", payload) for row, payload in enumerate(payloads)]


DOCUMENTS = documents()
REQUESTED = {
    "n": "integer",
    "d": "keyword",
    "t": "text",
    "u": "uuid",
    "g": "geo",
    "o.n": "float",
    "f": "bool",
    "m": "float",
}
DATED = {"d": "datetime", "o.d": "datetime", "n": False, "t": "keyword", "m": "datetime"}


def filled(collection: Collection) -> None:
    """Ingest in two halves."""
    collection.ingest(DOCUMENTS[:80])
    collection.ingest(DOCUMENTS[80:])


def reindexed(collection: Collection, wanted: dict | bool) -> None:
    """Ingest without indexes, and make them later."""
    filled(collection)
    assert "payload_indexes" not in collection.info()
    collection.reindex(payload_indexes=wanted)


_SELDOM = ["none", "dated", "reindexed", "reindexed, dated", "stand-in"]


@pytest.fixture(
    scope="module",
    params=["automatic", "requested", *map(slow, _SELDOM)],
)
def stored(request, tmp_path_factory):
    """The collection with one kind of indexes."""
    wanted = {"none": False, "requested": REQUESTED, "dated": DATED}.get(request.param.removeprefix("reindexed, "))
    later = request.param.startswith("reindexed")
    options = {"encoder": WordEncoder(), "chunking": False, "payload_indexes": False if later else wanted}
    with StandIn().running() as server:
        place = {"url": server.url} if request.param == "stand-in" else {"path": tmp_path_factory.mktemp("store")}
        with Collection.open(f"c{uuid4().hex}", **place, **options) as collection:
            if later:
                without_misfits = {key: kind for key, kind in (wanted or {}).items() if key != "m"}
                reindexed(collection, without_misfits)
            else:
                filled(collection)
            collection.expected = wanted
            yield request.param, collection


def test_the_indexes_are_those_that_are_meant(stored):
    name, collection = stored
    found = collection.info().get("payload_indexes", {})
    if name == "none":
        assert found == {}
        return
    assert found["m"] == "keyword", "it has numbers and dates"
    assert found["f"] in ("bool", "keyword")
    if "dated" in name:
        assert (found["d"], found["o.d"], found["t"]) == ("datetime", "datetime", "keyword")
        assert "n" not in found
    else:
        assert (found["n"], found["o.n"], found["d"], found["u"]) == ("float", "float", "keyword", "keyword")
    assert found["t"] == ("text" if name == "requested" else "keyword")


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


def serves(name: str, wanted: dict) -> bool:
    """Whether the store answers such a filter, and as a server does."""
    if name != "stand-in":
        return True
    by_words = any(f"'{operator}': " in repr(wanted) for operator in ("text", "phrase"))  # they need a text index
    # the client's local mode compares large integers without rounding
    return not by_words and (BIG not in wanted.values() or bool({"eq", "ne"} & wanted.keys()))


SCALARS = [0, 1, 1.0, 1.5, BIG, -BIG, MICROSECONDS, True, False, *TEXTS, *DAYS, *IDS, date(2024, 5, 1)]
NUMBERS = [0, 1, 1.5, 2, BIG, MICROSECONDS, -1e300]
LIMITS = ["2024-05-01", "2024-05-01T00:00:00.123456Z", date(2023, 3, 1), datetime(2024, 5, 1, 0, 0, 1), "1970-01-01"]
OPERATORS = [
    *({name: value} for name in ("eq", "ne") for value in SCALARS),
    *({name: limit} for name in ("gt", "gte", "lt", "lte") for limit in (*NUMBERS, *LIMITS)),
    *({name: yes} for name in ("exists", "null") for yes in (True, False)),
    *({name: text} for name in ("text", "phrase") for text in ("apple", "red apple", "apple red", "1")),
    {"in": [1, "x", "2024-05-01", True]},
    {"not_in": [1.5, "red apple", BIG, DAYS[2]]},
    {"in": [IDS[0], "2023-02-28", "apple"]},
    {"gte": "2024-01-01", "lt": "2024-05-02"},
    {"gte": 1, "lt": 2},
]


@pytest.mark.slow
def test_every_operator_on_every_key(stored):
    name, collection = stored
    found = set()
    for key in KEYS:
        for wanted in OPERATORS:
            if not serves(name, wanted):
                continue
            expected = truth({key: wanted})
            assert answers(collection, {key: wanted}) == expected, (key, wanted)
            found.add(frozenset(expected))
    assert len(found) > 100, "the filters find different documents"


SMALL = [wanted for wanted in OPERATORS if BIG not in wanted.values()]
FIELDS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(SMALL), min_size=1, max_size=3)
FILTERS = st.recursive(
    FIELDS,
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from(["and", "or"]), st.lists(inner, min_size=1, max_size=3), min_size=1),
        inner.map(lambda one: {"not": one}),
    ),
    max_leaves=4,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(wanted=FILTERS)
def test_every_filter(stored, wanted):
    name, collection = stored
    assume(serves(name, wanted))
    assert answers(collection, wanted) == truth(wanted)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(wanted=FILTERS)
def test_searches_find_the_same(stored, wanted):
    name, collection = stored
    assume(serves(name, wanted))
    assert {hit.id for hit in collection.search("tea", len(DOCUMENTS), filter=wanted)} == truth(wanted)


LEAPS = ["2016-12-31T23:59:60Z", "2016-12-31T23:59:60.5Z", "2017-01-01T00:59:60+01:00", "2016-12-31T12:30:60Z"]
NEAR_LEAPS = ["2016-12-31T23:59:59Z", "2016-12-31T23:59:59.999999Z", "2017-01-01", "2017-01-01T00:00:00.5Z"]


def test_an_index_leaves_a_leap_second_on_its_day(tmp_path):
    documents = [Document(f"{row}", f"tea {row}", "", {"d": day}) for row, day in enumerate([*NEAR_LEAPS, *LEAPS])]
    filters = [{"d": {name: day}} for name in ("gt", "gte", "lt", "lte") for day in (*NEAR_LEAPS, *LEAPS)]
    filters += [{"d": day} for day in (date(2017, 1, 1), *LEAPS)]
    expected = [[each.id for each in documents if matches(parse_filter(one), each.id, each.payload)] for one in filters]
    assert expected[filters.index({"d": {"lt": "2017-01-01"}})] == ["0", "1", "4", "5", "6", "7"]
    for kind in ("datetime", False):
        place = {"path": tmp_path / str(kind), "encoder": WordEncoder(), "chunking": False}
        with Collection.open("notes", **place, payload_indexes={"d": kind}) as collection:
            collection.ingest(documents[:4])
            assert collection._backend.field_indexes().get("metadata.d") == (kind or None)
            collection.ingest(documents)
            for _ in range(2):
                assert [sorted(collection.find(one)) for one in filters] == expected
                collection.reindex()
