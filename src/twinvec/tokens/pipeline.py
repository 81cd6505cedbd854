"""Texts -> tokens -> batches -> results, with the steps overlapping.

Texts are processed in windows. The first is small, so that the engine starts soon; each later one is twice as large.
While the engine computes one window, a thread tokenises the next. As many threads as the engine has workers pad and
compute the batches of a window. The caller's thread gets the results in the order of the batches, so it needs no lock
to store them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from twinvec.arrays import BoolArray, FloatArray, IntArray
from twinvec.support.cpu import thread_pool
from twinvec.tokens.batching import Batch, token_budget_batches, worker_batches
from twinvec.tokens.tokenizer import TokenIds

Item = TypeVar("Item")
Result = TypeVar("Result")

FIRST_WINDOW_TEXTS = 1024
WINDOW_TEXTS = 8192

_SMALL_CALL = 128  # tokens; for such a small call, all cores on one batch are faster than one core for each batch


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
) -> Iterator[tuple[IntArray, IntArray, BoolArray, FloatArray]]:
    """Yield for each batch the indices of its inputs, their lengths in tokens, whether each is truncated, the result.

    ``tokenize`` gets one window of inputs at a time. ``settings.workers`` threads call ``compute`` at once.
    """
    windows = list(_growing(inputs, min(FIRST_WINDOW_TEXTS, settings.window), settings.window))
    start = 0
    for tokens in _threaded(lambda part: tokenize(list(part)), windows, 1, 1, "tokenize"):
        lengths = tokens.lengths
        small = len(windows) == 1 and lengths.sum() <= _SMALL_CALL
        workers = 1 if small else settings.workers
        if settings.workers == 1:  # a call of such an engine, on a GPU say, costs more than its padding
            plan = list(token_budget_batches(lengths, settings.token_budget))
        else:
            plan = worker_batches(lengths, settings.token_budget, workers)
        alone = small or len(plan) == len(windows) == 1

        def run(indices: IntArray, tokens: TokenIds = tokens, alone: bool = alone) -> FloatArray:
            return compute(replace(tokens.batch(indices, settings.pad_id, settings.prompt_tokens), alone=alone))

        results = map(run, plan) if workers == 1 else _threaded(run, plan, workers, 4 * workers, "engine")
        for indices, result in zip(plan, results, strict=True):
            yield start + indices, lengths[indices], tokens.truncated[indices], result
        start += len(lengths)


def distinct(items: list[Item]) -> tuple[list[Item], IntArray]:
    """Return the distinct items, and for each item its index among the distinct items."""
    first: dict[Item, int] = {}
    inverse = np.fromiter((first.setdefault(item, len(first)) for item in items), dtype=np.int64, count=len(items))
    return list(first), inverse


def _growing(inputs: Sequence[Item], size: int, largest: int) -> Iterator[Sequence[Item]]:
    start = 0
    while start < len(inputs):
        yield inputs[start : start + size]
        start, size = start + size, min(2 * size, largest)


def _threaded(
    function: Callable[[Item], Result], items: Sequence[Item], threads: int, ahead: int, name: str
) -> Iterator[Result]:
    """Like ``map``, in order, but threads compute ``ahead`` more results while the caller uses one.

    Pending calls are cancelled if one fails or the caller stops.
    """
    if len(items) < 2:
        yield from map(function, items)
        return
    with thread_pool(threads, name) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
