"""Texts -> tokens -> batches -> results, with the steps overlapping.

Texts go through in windows, small ones first so that the engine need not wait for long: while it works on one, the
next is tokenised in a thread of its own, and at most two are in memory. Within a window, batches are padded and
computed by as many threads as the engine runs batches at once; engine and tokenizer release the interpreter's lock
while they work. Results come back in the calling thread, in the order of the batches, so that whoever stores them needs
no lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray
from twinvec.tokens.batching import Batch, token_budget_batches
from twinvec.tokens.tokenizer import TokenIds

Indices = npt.NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")

FIRST_WINDOW_TEXTS = 1024
WINDOW_TEXTS = 8192

_LEAST_SHARE = 128  # tokens: less is not worth a thread
_LITTLE = 256  # tokens of a call: all cores do its batches sooner, one after another, than each core one


def run_batches(
    inputs: Sequence[Item],
    tokenize: Callable[[list[Item]], TokenIds],
    compute: Callable[[Batch], FloatArray],
    *,
    token_budget: int,
    workers: int,
    pad_id: int,
    prompt_tokens: int = 0,
    window: int = WINDOW_TEXTS,
) -> Iterator[tuple[Indices, npt.NDArray[np.int64], FloatArray]]:
    """Yield (indices into ``inputs``, their lengths in tokens, what ``compute`` made of their batch) for all inputs.

    Args:
        inputs: Texts, or pairs of texts.
        tokenize: Called with one window of inputs at a time, never twice at once.
        compute: Called with padded batches, from ``workers`` threads at once.
        token_budget: Largest padded size of a batch, in tokens.
        workers: Batches computed at once.
        pad_id: The token that padding is made of.
        prompt_tokens: Leading tokens that pooling leaves out.
        window: Largest number of inputs tokenised at a time.
    """
    windows = list(_growing(inputs, min(FIRST_WINDOW_TEXTS, window), window))
    start = 0
    for tokens in _ahead(lambda part: tokenize(list(part)), windows):
        lengths = tokens.lengths
        little = len(windows) == 1 and lengths.sum() <= _LITTLE
        at_once = 1 if little else workers
        plan = list(token_budget_batches(lengths, _shared_budget(lengths, token_budget, at_once)))
        alone = little or len(plan) == len(windows) == 1

        def run(indices: Indices, tokens: TokenIds = tokens, alone: bool = alone) -> FloatArray:
            return compute(replace(tokens.batch(indices, pad_id, prompt_tokens), alone=alone))

        for indices, result in zip(plan, _concurrent(run, plan, at_once), strict=True):
            yield start + indices, lengths[indices], result
        start += len(lengths)


def _growing(inputs: Sequence[Item], size: int, largest: int) -> Iterator[Sequence[Item]]:
    """The inputs in parts, each twice as large as the one before until they are of the largest size."""
    start = 0
    while start < len(inputs):
        yield inputs[start : start + size]
        start, size = start + size, min(2 * size, largest)


def _shared_budget(lengths: npt.NDArray[np.int64], budget: int, workers: int) -> int:
    """A smaller budget where batches of the whole one would be too few for all workers."""
    if workers == 1:
        return budget
    share = int(lengths.sum()) * 17 // 16 // workers + 1  # with the padding that batches have
    return min(budget, max(share, _LEAST_SHARE))


def _ahead(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """``map``, with the next result computed in a thread while the caller is busy with this one."""
    if len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="twinvec-tokenize") as pool:
        coming = pool.submit(function, items[0])
        for item in items[1:]:
            ready = coming.result()
            coming = pool.submit(function, item)
            yield ready
        yield coming.result()


def _concurrent(function: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[Result]:
    """``map`` by ``workers`` threads, in order; what has not begun when one fails, or the caller stops, never does."""
    if workers == 1 or len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers, thread_name_prefix="twinvec-engine") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 4 * workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
