"""Slices of items by weight."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from twinvec.support.slicing import sliced_by_weight


def test_by_hand():
    found = list(sliced_by_weight([3, 3, 3, 9, 1, 1, 1, 1], lambda weight: weight, most=3, heaviest=6))
    assert found == [[3, 3], [3], [9], [1, 1, 1], [1]]
    assert list(sliced_by_weight([], len, most=3, heaviest=6)) == []


@given(st.lists(st.integers(0, 20)), st.integers(1, 5), st.integers(1, 30))
def test_slices_hold_all_items_in_order_within_the_bounds_and_none_could_take_the_next_item(weights, most, heaviest):
    slices = list(sliced_by_weight(iter(weights), lambda weight: weight, most=most, heaviest=heaviest))
    assert [weight for each in slices for weight in each] == weights
    for each in slices:
        assert len(each) == 1 or (len(each) <= most and sum(each) <= heaviest)
    for each, following in pairwise(slices):
        assert len(each) == most or sum(each) + following[0] > heaviest
