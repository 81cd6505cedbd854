"""Coalescing: many awaited calls with one text each become few calls with many texts.

An engine takes little longer for fifty short texts than for a few, and a blocking call would stop the event loop.
``Coalescer`` runs the blocking function in one thread, which computes all waiting calls together.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Row = TypeVar("Row")

_LONGEST_PAUSE = 0.01  # seconds

_coalescers: weakref.WeakSet[Coalescer[Any, Any]] = weakref.WeakSet()


class Coalescer(Generic[Item, Row]):
    """Lets callers await a blocking function that takes a list of items, such as texts, from one or more event loops.

    Args:
        compute: Function that returns one row for each item, in order.
        most: Largest weight of the items that ``compute`` gets at once; a heavier call is computed alone and not split.
        weigh: Function that returns the weight of an item; default: every item weighs 1.
        patience: Longest pause after a batch, as a share of the time that the batch took; at most 10 ms. The pause ends
            when as many calls wait as the batch had, so that callers who ask again at once are answered together.
    """

    def __init__(
        self,
        compute: Callable[[list[Item]], Sequence[Row]],
        most: int = 256,
        *,
        weigh: Callable[[Item], int] | None = None,
        patience: float = 0.0,
    ) -> None:
        self._compute = compute
        self._most = most
        self._weigh = weigh
        self._patience = patience
        self._closed = False
        self._start()
        _coalescers.add(self)

    def _start(self) -> None:
        """Begin with a new thread and an empty queue."""
        self._lock = threading.Lock()
        self._enough = threading.Condition(self._lock)
        self._waiting: deque[_Call[Item, Row]] = deque()
        self._expected = 1
        self._wait_until = 0.0
        self._working = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="twinvec-coalescing")

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), weigh=self._weigh, patience=self._patience), (self._compute, self._most)

    async def __call__(self, items: Iterable[Item]) -> list[Row]:
        """Return the rows of ``items``, or raise the error of computing them.

        A call that is cancelled before its turn is not computed.
        """
        listed = list(items)
        weight = len(listed) if self._weigh is None else sum(map(self._weigh, listed))
        loop = asyncio.get_running_loop()
        call: _Call[Item, Row] = _Call(listed, weight, loop.create_future())
        with self._lock:
            if self._closed:
                raise RuntimeError("the coalescer is closed")
            self._waiting.append(call)
            if len(self._waiting) == self._expected:
                self._enough.notify()
        # in the event loop's next round, so that all calls of this round are computed together
        loop.call_soon(self._begin)
        return await call.answer

    def close(self) -> None:
        """Answer the waiting calls and end the thread, blocking until both are done. Later calls raise RuntimeError."""
        self._begin(last=True)
        self._thread.shutdown()

    def _begin(self, *, last: bool = False) -> None:
        """Let the thread answer the waiting calls, unless it is already at work."""
        with self._lock:
            self._closed = self._closed or last
            if not self._waiting or self._working:
                return
            try:
                self._thread.submit(self._answer_waiting)
                self._working = True
            except RuntimeError as error:  # the system has no thread left, or the interpreter ends
                calls = list(self._waiting)
                self._waiting.clear()
                for call in calls:
                    call.error = error
                _deliver(calls)

    def _answer_waiting(self) -> None:
        while calls := self._next():
            started = time.monotonic()
            asked = [call for call in calls if not call.answer.done()]
            self._compute_rows(asked)
            _deliver(asked)
            ended = time.monotonic()
            pause = min(self._patience * (ended - started), _LONGEST_PAUSE)
            self._expected, self._wait_until = len(calls), ended + pause

    def _next(self) -> list[_Call[Item, Row]]:
        """Take the waiting calls, up to the weight limit, after a short pause for more.

        If no call waits, mark the thread as idle.
        """
        with self._lock:
            if self._waiting and (pause := self._wait_until - time.monotonic()) > 0:
                self._enough.wait_for(lambda: len(self._waiting) >= self._expected, pause)
            calls: list[_Call[Item, Row]] = []
            weight = 0
            while self._waiting and (not calls or weight + self._waiting[0].weight <= self._most):
                calls.append(self._waiting.popleft())
                weight += calls[-1].weight
            self._working = bool(calls)
            return calls

    def _compute_rows(self, calls: list[_Call[Item, Row]]) -> None:
        """Compute the items of several calls as one batch; if that fails, each call alone."""
        if not calls:
            return
        try:
            rows = iter(self._compute([item for call in calls for item in call.items]))
            for call in calls:
                call.rows = list(islice(rows, len(call.items)))
        except BaseException as error:  # errors of any type are passed on to the callers, who wait
            if len(calls) == 1:
                calls[0].error = error
                return
            for call in calls:
                self._compute_rows([call])


@dataclass(eq=False, slots=True)
class _Call(Generic[Item, Row]):
    """The items of one caller, their weight, and their rows or the error that computing them raised.

    The future ``answer`` belongs to the caller's event loop.
    """

    items: list[Item]
    weight: int
    answer: asyncio.Future[list[Row]]
    rows: list[Row] = field(default_factory=list)
    error: BaseException | None = None


def _deliver(calls: list[_Call[Item, Row]]) -> None:
    """Hand rows and errors over to the callers' event loops: one callback for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Call[Item, Row]]] = {}
    for call in calls:
        by_loop.setdefault(call.answer.get_loop(), []).append(call)
    for loop, of_loop in by_loop.items():
        with suppress(RuntimeError):  # the event loop has been closed, so no caller waits
            loop.call_soon_threadsafe(_resolve, of_loop)


def _resolve(calls: list[_Call[Item, Row]]) -> None:
    for call in calls:
        if call.answer.done():  # the caller has been cancelled meanwhile
            continue
        if call.error is None:
            call.answer.set_result(call.rows)
        else:
            call.answer.set_exception(call.error)


def _start_all() -> None:
    for coalescer in list(_coalescers):
        coalescer._start()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all)  # a forked process lacks the threads
