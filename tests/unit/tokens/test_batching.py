"""Batches under a token budget: every text once, in order of length, within budget, count and padding."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinvec.tokens.batching import token_budget_batches, worker_batches

lengths_of_texts = st.lists(st.integers(0, 600), max_size=300)


@given(lengths=lengths_of_texts, budget=st.integers(1, 5000), most=st.integers(1, 64))
@example(lengths=[], budget=1, most=1)
@example(lengths=[0, 0, 0], budget=1, most=2)
@example(lengths=[900, 900], budget=10, most=512)
def test_batches_are_a_partition_within_the_limits(lengths, budget, most):
    array = np.array(lengths, dtype=np.int64)
    batches = list(token_budget_batches(array, budget, most))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert 1 <= len(batch) <= most
        longest = max(array[batch].max(), 1)
        assert len(batch) == 1 or len(batch) * longest <= budget
        padding = len(batch) * longest - array[batch].sum()
        assert padding <= max(budget // 16, 32) or len(batch) == 1


@given(lengths=lengths_of_texts, budget=st.integers(1, 5000))
def test_longest_come_first(lengths, budget):
    array = np.array(lengths, dtype=np.int64)
    order = [array[index] for batch in token_budget_batches(array, budget) for index in batch]
    assert order == sorted(order, reverse=True)


@given(st.integers(1, 200), st.integers(1, 100), st.integers(1, 4000))
def test_texts_of_one_length_fill_their_batches(length, count, budget):
    sizes = [len(batch) for batch in token_budget_batches(np.full(count, length), budget)]
    full = min(max(budget // length, 1), count)
    assert sizes[:-1] == [full] * (len(sizes) - 1)
    assert 1 <= sizes[-1] <= full


def test_worked_example():
    batches = token_budget_batches(np.array([4, 9, 10, 1, 2]), budget=20)
    assert [batch.tolist() for batch in batches] == [[2, 1], [0, 4, 3]]


def test_much_padding_ends_a_batch():
    lengths = np.array([100] * 4 + [10] * 20)
    assert [len(batch) for batch in token_budget_batches(lengths, budget=1600)] == [5, 19]  # one text of padding fits


@pytest.mark.parametrize(("budget", "most"), [(0, 1), (-5, 1), (1, 0)])
def test_senseless_limits_are_refused(budget, most):
    with pytest.raises(ValueError, match="at least 1"):
        list(token_budget_batches(np.array([1]), budget, most))


def test_many_short_texts_fill_a_large_budget():
    lengths = np.full(10_000, 8)
    assert max(map(len, token_budget_batches(lengths, 1024))) == 128
    assert max(map(len, token_budget_batches(lengths, 65536))) == 4096
    assert max(map(len, token_budget_batches(np.full(2000, 1), 1024))) == 512


@given(lengths=lengths_of_texts, budget=st.integers(1, 2000), workers=st.integers(1, 4))
@example(lengths=[300, 300], budget=100, workers=2)
@example(lengths=[0, 0, 0], budget=1, workers=2)
def test_batches_for_workers_are_a_partition_within_the_budget(lengths, budget, workers):
    array = np.array(lengths, dtype=np.int64)
    batches = worker_batches(array, budget, workers)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    assert all(len(batch) == 1 or len(batch) * max(array[batch].max(), 1) <= budget for batch in batches)


def test_few_batches_end_together():
    lengths = np.full(250, 10)  # by the budget alone, two batches of 1,000 tokens and one of 500
    sizes = [10 * len(batch) for batch in worker_batches(lengths, budget=1000, workers=2)]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 10 * 4


def test_cutting_by_the_budget_stays_where_it_is_better():
    lengths = np.array([100] * 8 + [10] * 80)
    before = [batch.tolist() for batch in token_budget_batches(lengths, 800)]
    assert [batch.tolist() for batch in worker_batches(lengths, budget=800, workers=2)] == before


def test_one_worker_does_not_pad_short_texts_to_a_long_one():
    lengths = np.array([8, 40, 8, 8, 8, 8])  # by the budget alone, 3 x 40 tokens and 3 x 8
    assert [batch.tolist() for batch in token_budget_batches(lengths, 1024)] == [[1, 0, 2], [3, 4, 5]]
    assert [batch.tolist() for batch in worker_batches(lengths, 1024, workers=1)] == [[1], [0, 2, 3, 4, 5]]
