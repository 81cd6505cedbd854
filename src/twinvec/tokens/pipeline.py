"""Texts -> tokens -> batches -> results, with the steps overlapping.

Texts go through in windows; the first is small, so that the engine starts soon, and each later one is twice as large.
While the engine computes one window, a thread tokenises the next. As many threads as the engine has workers pad and
compute the batches of a window. The caller's thread gets the results in the order of the batches, so it needs no lock
to store them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from twinvec.arrays import FloatArray, IntArray
from twinvec.tokens.batching import Batch, token_budget_batches
from twinvec.tokens.tokenizer import TokenIds

Item = TypeVar("Item")
Result = TypeVar("Result")

FIRST_WINDOW_TEXTS = 1024
WINDOW_TEXTS = 8192

_LEAST_SHARE = 128  # tokens; a smaller batch is not worth a thread
_SMALL_CALL = 256  # tokens; all cores compute batches of so small a call one by one sooner than one core each


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """How inputs are batched.

    ``token_budget`` is the largest padded size of a batch; ``workers`` batches are computed at once. Pooling leaves out
    the first ``prompt_tokens`` tokens. ``window`` is the largest number of inputs tokenised at once.
    """

    token_budget: int
    workers: int
    pad_id: int
    prompt_tokens: int = 0
    window: int = WINDOW_TEXTS


def run_batches(
    inputs: Sequence[Item],
    tokenize: Callable[[list[Item]], TokenIds],
    compute: Callable[[Batch], FloatArray],
    settings: PipelineSettings,
) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield, for each batch of texts or pairs, the indices of its inputs, their lengths in tokens, and its result.

    ``tokenize`` gets one window of inputs at a time. ``settings.workers`` threads call ``compute`` at once.
    """
    windows = list(_growing(inputs, min(FIRST_WINDOW_TEXTS, settings.window), settings.window))
    start = 0
    for tokens in _ahead(lambda part: tokenize(list(part)), windows):
        lengths = tokens.lengths
        small = len(windows) == 1 and lengths.sum() <= _SMALL_CALL
        workers = 1 if small else settings.workers
        plan = list(token_budget_batches(lengths, _shared_budget(lengths, settings.token_budget, workers)))
        alone = small or len(plan) == len(windows) == 1

        def run(indices: IntArray, tokens: TokenIds = tokens, alone: bool = alone) -> FloatArray:
            return compute(replace(tokens.batch(indices, settings.pad_id, settings.prompt_tokens), alone=alone))

        for indices, result in zip(plan, _concurrent(run, plan, workers), strict=True):
            yield start + indices, lengths[indices], result
        start += len(lengths)


def _growing(inputs: Sequence[Item], size: int, largest: int) -> Iterator[Sequence[Item]]:
    start = 0
    while start < len(inputs):
        yield inputs[start : start + size]
        start, size = start + size, min(2 * size, largest)


def _shared_budget(lengths: IntArray, budget: int, workers: int) -> int:
    """Return a smaller budget if the whole one would give fewer batches than workers."""
    if workers == 1:
        return budget
    share = int(lengths.sum()) * 17 // 16 // workers + 1  # batches hold up to a sixteenth of padding
    return min(budget, max(share, _LEAST_SHARE))


def _ahead(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Like ``map``, but a thread computes the next result while the caller uses the current one."""
    if len(items) < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="twinvec-tokenize") as pool:
        following = pool.submit(function, items[0])
        for item in items[1:]:
            current = following.result()
            following = pool.submit(function, item)
            yield current
        yield following.result()


def _concurrent(function: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[Result]:
    """Like ``map`` with ``workers`` threads, in order; cancel pending calls if one fails or the caller stops."""
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
