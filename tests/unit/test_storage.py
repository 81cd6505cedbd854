"""Vectors in one byte a number: codes, ranges, and what is outside them."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.storage import Ranges, from_int8, measure_ranges, to_bits, to_int8

RNG = np.random.default_rng(7)


def array(*values):
    return np.array(values, dtype=np.float32)


def test_codes_by_hand():
    ranges = Ranges(array(-1, 0), array(1, 2.55))
    codes = to_int8(array([-1, 0], [1, 2.55], [0.004, 1.28], [0.0118, 0.004]), ranges)
    assert codes.dtype == np.int8
    assert codes.tolist() == [[-128, -128], [127, 127], [0, 0], [1, -128]]
    np.testing.assert_allclose(from_int8(codes[:2], ranges), [[-1, 0], [1, 2.55]], atol=1e-6)
    np.testing.assert_allclose(from_int8(codes[2], ranges), [1 / 255, 1.28], atol=1e-6)


def test_what_lies_outside_gets_the_code_at_the_end():
    ranges = Ranges(array(-0.1, -0.1), array(0.1, 0.1))
    assert to_int8(array(-3, 3), ranges).tolist() == [-128, 127]


def test_values_come_back_within_half_a_step():
    vectors = RNG.normal(size=(500, 16)).astype(np.float32) * RNG.uniform(0.01, 3, size=16).astype(np.float32)
    ranges = measure_ranges(vectors)
    lost = np.abs(from_int8(to_int8(vectors, ranges), ranges) - vectors)
    assert (lost <= 0.5001 * ranges.steps).all()
    assert lost.max() > 0


def test_ranges_leave_room():
    vectors = array([0, -1], [10, 1])
    ranges = measure_ranges(vectors)
    np.testing.assert_allclose(ranges.low_D, [-1, -1.2], atol=1e-6)
    np.testing.assert_allclose(ranges.high_D, [11, 1.2], atol=1e-6)


def test_a_dimension_that_is_always_the_same():
    ranges = measure_ranges(array([0.5, 1], [0.5, 2]))
    codes = to_int8(array([0.5, 1.5]), ranges)
    np.testing.assert_allclose(from_int8(codes, ranges), [[0.5, 1.5]], atol=0.01)


@pytest.mark.parametrize("shape", [(0, 9), (3, 9), (9,)])
def test_bits(shape):
    vectors = RNG.normal(size=shape).astype(np.float32)
    bits = to_bits(vectors)
    assert bits.shape == (*shape[:-1], 2)
    np.testing.assert_array_equal(np.unpackbits(bits, axis=-1)[..., :9], vectors > 0)
