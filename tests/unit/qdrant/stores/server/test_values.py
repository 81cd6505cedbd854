"""Vectors on their way to a server: few digits, and the same numbers; bounds of dates, in whole microseconds."""

from __future__ import annotations

import json
from datetime import datetime
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np

from twinvec.arrays import unit
from twinvec.retrieval.filters import matches, parse_filter
from twinvec.retrieval.filters.instants import microseconds, moment
from twinvec_qdrant.records.schema import filter_conditions
from twinvec_qdrant.stores.points import Point
from twinvec_qdrant.stores.server.values import client_filter, client_points, numbers


def test_every_float32_arrives_as_it_is():
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint32)
    floats = bits.view(np.float32)
    floats = floats[np.isfinite(floats)]  # of every size, also below that of normal numbers
    floats = np.concatenate([floats, np.array([0, -0.0, 1, -1, 0.1, 1e-45, 3.4028235e38], dtype=np.float32)])
    (listed,) = numbers([floats])
    assert (np.array(json.loads(json.dumps(listed)), dtype=np.float32) == floats).all()


def test_numbers_of_a_vector_have_nine_digits():
    vector = unit(np.random.default_rng(0).normal(size=(1, 1000)).astype(np.float32))[0]
    digits = [repr(abs(number)).split("e")[0].replace(".", "").strip("0") for number in numbers([vector])[0]]
    assert max(map(len, digits)) <= 9


def test_each_point_has_its_own_vectors():
    dense = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    words = (np.array([3, 7]), np.array([0.5, 0.25], dtype=np.float32))
    points = [Point("1", dense=dense[0]), Point("2", {"kind": "record"}), Point("3", sparse=words, dense=dense[1])]
    first, second, third = client_points(points, {"text": ""})
    assert np.array_equal(np.array(first.vector["dense"], dtype=np.float32), dense[0])
    assert (second.vector, second.payload) == ({}, {"text": "", "kind": "record"})
    assert np.array_equal(np.array(third.vector["dense"], dtype=np.float32), dense[1])
    assert (third.vector["sparse"].indices, third.vector["sparse"].values) == ([3, 7], [0.5, 0.25])


DATES = ["2024-05-01T00:00:00Z", "2024-05-01T00:00:00.123456Z", "2024-05-01T23:59:59.999999Z", "2024-05-02T00:00:00Z"]
FINE = ["2024-05-01T00:00:00.0000001Z", "2024-05-01T00:00:00.123455999Z", "2024-05-01T00:00:00.1234567Z"]


def exact(date: str) -> Fraction:
    """Return the moment of a date with all its digits, which a server compares if it has no index of dates."""
    return moment(date) + Fraction(f"0.{date.rstrip('Z').partition('.')[2]:0<7}") * 1_000_000 % 1


def passes(bounds: object, date: str) -> bool:
    comparisons = {"gt": Fraction.__gt__, "gte": Fraction.__ge__, "lt": Fraction.__lt__, "lte": Fraction.__le__}
    sent = {name: bound for name in comparisons if (bound := getattr(bounds, name)) is not None}
    assert {*map(type, sent.values())} == {datetime}
    return all(comparisons[name](exact(date), Fraction(microseconds(bound))) for name, bound in sent.items())


def test_digits_after_those_of_a_microsecond_do_not_count():
    leap = "2024-05-01T23:59:60Z"
    answers = set()
    for first, second in combinations_with_replacement(["gt", "gte", "lt", "lte"], 2):
        for one in DATES:
            for other in DATES:
                wanted = {"d": {first: one, second: other}}
                (condition,) = client_filter(filter_conditions(parse_filter(wanted))).must
                found = {date for date in (*DATES, *FINE, leap) if passes(condition.range, date)}
                assert found == {
                    date for date in (*DATES, *FINE, leap) if matches(parse_filter(wanted), "", {"d": date})
                }
                answers.add(frozenset(found))
    assert len(answers) > 10
