"""Coalescing: many awaited calls with one text each become few calls with many texts.

An engine takes little longer for fifty short texts than for a few, and a blocking call would stop the event loop.
``Coalescer`` runs the blocking function in one thread, which computes all waiting calls together.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

Row = TypeVar("Row")


class Coalescer(Generic[Row]):
    """The awaitable form of a blocking function of a list of texts; several event loops may await it at once.

    ``compute`` gives one row for each text, in order. It gets at most ``most`` texts, or all texts of one larger call.
    """

    def __init__(self, compute: Callable[[list[str]], Sequence[Row]], most: int = 256) -> None:
        self._compute = compute
        self._most = most
        self._lock = threading.Lock()
        self._waiting: deque[_Call[Row]] = deque()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="twinvec-coalescing")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._compute, self._most)

    async def __call__(self, texts: Iterable[str]) -> list[Row]:
        """Return the rows of ``texts`` or raise their own error; a call cancelled before its turn is never computed."""
        call: _Call[Row] = _Call(list(texts))
        with self._lock:
            self._waiting.append(call)
        # in the event loop's next round, so that all calls of this round are computed together
        asyncio.get_running_loop().call_soon(self._thread.submit, self._answer_waiting)
        return await asyncio.wrap_future(call.rows)

    def _answer_waiting(self) -> None:
        while calls := self._next():
            self._answer([call for call in calls if call.rows.set_running_or_notify_cancel()])

    def _next(self) -> list[_Call[Row]]:
        """Take the next calls; none are left if an earlier run has taken them all."""
        with self._lock:
            calls: list[_Call[Row]] = []
            texts = 0
            while self._waiting and (not calls or texts + len(self._waiting[0].texts) <= self._most):
                calls.append(self._waiting.popleft())
                texts += len(calls[-1].texts)
            return calls

    def _answer(self, calls: list[_Call[Row]]) -> None:
        if not calls:
            return
        try:
            rows = list(self._compute([text for call in calls for text in call.texts]))
        except BaseException as error:  # of any type, since the callers wait for it
            if len(calls) == 1:
                calls[0].rows.set_exception(error)
                return
            for call in calls:
                self._answer([call])
            return
        start = 0
        for call in calls:
            call.rows.set_result(rows[start : start + len(call.texts)])
            start += len(call.texts)


@dataclass(eq=False, slots=True)
class _Call(Generic[Row]):
    """The texts of one caller, and the future of their rows."""

    texts: list[str]
    rows: Future[list[Row]] = field(default_factory=Future)
