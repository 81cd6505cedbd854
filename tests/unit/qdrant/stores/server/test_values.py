"""Vectors on their way to a server: few digits, and the same numbers."""

from __future__ import annotations

import json

import numpy as np

from twinvec.arrays import unit
from twinvec_qdrant.stores.points import Point
from twinvec_qdrant.stores.server.values import client_points, numbers


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
