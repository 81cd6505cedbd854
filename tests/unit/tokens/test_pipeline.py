"""The pipeline: every input once, with its own result, steps overlapping, errors and abandonment."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from twinvec.tokens.pipeline import PipelineSettings, run_batches
from twinvec.tokens.tokenizer import TokenIds


def tokenize(parts):
    """Numbers instead of texts: the number n becomes n tokens of value n, truncated if it is odd."""
    lengths = np.array([0, *parts])
    return TokenIds(np.repeat(parts, parts).astype(np.int32), np.cumsum(lengths), None, lengths[1:] % 2 == 1)


def sums(batch):
    return (batch.ids_BT * batch.mask_BT).sum(1, keepdims=True).astype(np.float32)


def collect(numbers, compute=sums, **options):
    found = np.full(len(numbers), np.nan)
    lengths_found = np.full(len(numbers), -1)
    options = {"token_budget": 64, "workers": 1, "pad_id": 0} | options
    for indices, lengths, truncated, result in run_batches(numbers, tokenize, compute, PipelineSettings(**options)):
        assert np.isnan(found[indices]).all(), "an input came twice"
        assert truncated.tolist() == [numbers[index] % 2 == 1 for index in indices]
        found[indices], lengths_found[indices] = result[:, 0], lengths
    return found, lengths_found


@hypothesis_settings(max_examples=40, deadline=None)
@given(
    numbers=st.lists(st.integers(0, 50), max_size=60),
    window=st.integers(1, 70),
    workers=st.integers(1, 4),
    budget=st.integers(1, 200),
)
def test_each_input_gets_its_own_result(numbers, window, workers, budget):
    found, lengths = collect(numbers, window=window, workers=workers, token_budget=budget)
    assert found.tolist() == [number * number for number in numbers]
    assert lengths.tolist() == numbers


def test_padding_is_masked_and_made_of_the_pad_token():
    seen = []
    collect([3, 1], compute=lambda batch: seen.append(batch) or sums(batch), pad_id=9, prompt_tokens=2)
    [batch] = seen
    assert batch.ids_BT.tolist() == [[3, 3, 3], [1, 9, 9]]
    assert batch.mask_BT.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert batch.prompt_tokens == 2


def test_workers_compute_at_once():
    """Two batches wait for one another: only threads that run at the same time get past."""
    barrier = threading.Barrier(2, timeout=60)

    def compute(batch):
        barrier.wait()
        return sums(batch)

    found, _ = collect([200] * 4, compute, workers=2, token_budget=200)
    assert found.tolist() == [40000] * 4


@pytest.mark.parametrize(("numbers", "workers", "least"), [([50] * 20, 2, 2), ([30] * 40, 4, 4), ([5] * 10, 4, 1)])
def test_few_inputs_are_shared_out_among_the_workers(numbers, workers, least):
    batches = []
    collect(numbers, lambda batch: batches.append(batch) or sums(batch), workers=workers, token_budget=4096)
    assert least <= len(batches) <= least + 1
    sizes = [batch.ids_BT.size for batch in batches]
    assert max(sizes) < 1.3 * sum(numbers) / least


@pytest.mark.parametrize(
    ("numbers", "options", "alone"),
    [
        ([3, 1], {}, True),
        ([40, 40], {"workers": 2}, True),  # two batches, and so little that they come one after another
        ([200, 200], {"workers": 2}, False),
        ([3, 1], {"window": 1}, False),
    ],
)
def test_a_batch_knows_whether_it_is_alone(numbers, options, alone):
    seen = []
    collect(numbers, compute=lambda batch: seen.append(batch.alone) or sums(batch), **options)
    assert set(seen) == {alone}


@pytest.mark.parametrize(("workers", "sizes"), [(1, [3, 3]), (2, [1, 5])])
def test_small_calls_save_padding_only_where_more_calls_are_cheap(workers, sizes):
    found = []
    collect(
        [8, 40, 8, 8, 8, 8],
        lambda batch: found.append(len(batch.ids_BT)) or sums(batch),
        token_budget=1024,
        workers=workers,
    )
    assert found == sizes


def test_the_next_window_is_tokenised_meanwhile():
    """The engine waits until the window after its own has been tokenised."""
    done = [threading.Event() for _ in range(4)]
    windows = []

    def tokenize_and_tell(part):
        windows.append(len(part))
        tokens = tokenize(part)
        done[len(windows) - 1].set()
        return tokens

    def compute(batch):
        number = int(batch.ids_BT[0, 0]) - 1
        assert done[min(number + 1, 3)].wait(60)
        return sums(batch)

    settings = PipelineSettings(token_budget=64, workers=1, pad_id=0, window=1)
    results = list(run_batches([1, 2, 3, 4], tokenize_and_tell, compute, settings))
    assert windows == [1, 1, 1, 1]
    assert [indices.tolist() for indices, *_ in results] == [[0], [1], [2], [3]]


def test_the_engine_need_not_wait_until_many_texts_are_tokenised():
    windows = []

    def tokenize_and_tell(part):
        windows.append(len(part))
        return tokenize(part)

    settings = PipelineSettings(token_budget=512, workers=1, pad_id=0)
    assert len(list(run_batches([1] * 20_000, tokenize_and_tell, sums, settings))) == 40
    assert windows == [1024, 2048, 4096, 8192, 4640]


def test_no_more_than_two_windows_are_tokenised_ahead():
    tokenised = []

    def counting(part):
        tokenised.append(part)
        return tokenize(part)

    settings = PipelineSettings(token_budget=64, workers=1, pad_id=0, window=1)
    for done, _ in enumerate(run_batches([2] * 20, counting, sums, settings)):
        assert len(tokenised) <= done + 2


@pytest.mark.parametrize("workers", [1, 3])
def test_an_error_of_the_engine_comes_through_and_ends_the_work(workers):
    calls = []

    def compute(batch):
        calls.append(batch)
        raise RuntimeError("no more memory")

    with pytest.raises(RuntimeError, match="no more memory"):
        collect(list(range(1, 200)), compute, workers=workers, token_budget=1)
    assert len(calls) < 60


def test_an_error_of_the_tokenizer_comes_through():
    def broken(part):
        if 3 in part:
            raise RuntimeError("bad text")
        return tokenize(part)

    settings = PipelineSettings(token_budget=64, workers=1, pad_id=0, window=1)
    results = run_batches([1, 2, 3, 4], broken, sums, settings)
    with pytest.raises(RuntimeError, match="bad text"):
        list(results)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_caller_may_stop_early(workers):
    calls = []

    def compute(batch):
        calls.append(batch)
        return sums(batch)

    settings = PipelineSettings(token_budget=4, workers=workers, pad_id=0, window=100)
    results = run_batches([4] * 500, tokenize, compute, settings)
    next(results)
    results.close()
    assert 1 <= len(calls) <= 20
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("twinvec-engine")]
