"""Batches across requests: texts that wait at the same time are computed in one call, off the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from twinvec.adapters.coalescing import Coalescer
from twinvec.arrays import BoolArray, IntArray
from twinvec.support.slicing import sliced_by_weight
from twinvec.tokens.truncation import work_of
from twinvec_serve.models.waiting_room import WaitingRoom
from twinvec_serve.observing.metrics import Metrics

Item = TypeVar("Item", bound=str | tuple[str, str])
Row = TypeVar("Row")

BATCH_WORK = 16 * 1024
"""Largest batch of one call, in characters (about 4,000 tokens). A larger batch would not save time per text."""

_MOST_ITEMS = 2048
_PATIENCE = 0.25  # see ``Coalescer``


class Computed(NamedTuple, Generic[Row]):
    """A row for each item, the number of tokens that the model has read, and the number of truncated items."""

    rows: list[Row]
    tokens: int
    truncated: int


class Batches(Generic[Item, Row]):
    """Computes the items (texts or pairs) of many requests in common batches.

    ``compute`` returns the row of each item, its number of tokens, and whether it is truncated (to ``max_tokens``). A
    large request is computed in parts, and other requests get their turn between two parts. Batches that have not begun
    leave out cancelled requests.
    """

    def __init__(
        self,
        compute: Callable[[list[Item]], tuple[Sequence[Row], IntArray, BoolArray]],
        max_tokens: int,
        room: WaitingRoom,
        metrics: Metrics,
    ) -> None:
        self._compute = compute
        self._max_tokens = max_tokens
        self._room = room
        self._metrics = metrics
        self._coalescer = Coalescer(self._measured, BATCH_WORK, weigh=self._work, patience=_PATIENCE)

    async def __call__(self, items: Sequence[Item]) -> Computed[Row]:
        """Return the rows of ``items``; errors are those of ``compute``."""
        found: list[tuple[Row, int, bool]] = []
        for part in sliced_by_weight(items, self._work, most=_MOST_ITEMS, heaviest=BATCH_WORK):
            found += await self._coalescer(part)
        return Computed([row for row, _, _ in found], sum(each[1] for each in found), sum(each[2] for each in found))

    def close(self) -> None:
        """Finish the batches under way; blocks until then."""
        self._coalescer.close()

    def _work(self, item: Item) -> int:
        return work_of(item, self._max_tokens)

    def _measured(self, items: list[Item]) -> list[tuple[Row, int, bool]]:
        started = time.perf_counter()
        rows, tokens_N, truncated_N = self._compute(items)
        self._room.note_speed(len(items), time.perf_counter() - started)
        self._metrics.batch(len(items), int(tokens_N.sum()))
        return list(zip(rows, tokens_N.tolist(), truncated_N.tolist(), strict=True))
