"""Merging: awaited requests of one kind that wait at the same time become one request.

A few requests run at once, so that a single search does not wait for another. Further requests wait, and are sent
together when a running request ends, so that many searches at once take few requests.

If the server refuses a merged request, its parts are sent again one by one, because some of them may be permitted. If a
merged request gets no answer, its callers and all waiting callers get the error at once, so that nobody waits longer
than for one request.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from typing import Any

from twinvec.errors import StoreUnavailableError

_UNDER_WAY = 8  # requests that run at once
_MOST = 128  # searches, or points, of a merged request


class Lane:
    """The requests of one kind on one event loop; ``send`` gets the items of all requests that are merged.

    ``part`` returns the answer to one request. Its arguments are the items of the request, the index of the first one
    among all items, and the answer to the merged request.
    """

    def __init__(
        self,
        send: Callable[[list[Any]], Awaitable[Sequence[Any]]],
        part: Callable[[Sequence[Any], int, Sequence[Any]], Any],
    ) -> None:
        self._send = send
        self._part = part
        self._waiting: deque[tuple[Sequence[Any], asyncio.Future[Any]]] = deque()
        self._workers: set[asyncio.Task[None]] = set()

    async def __call__(self, items: Sequence[Any]) -> Any:
        """Return the answer for these items, which may be part of a merged request's answer; raise its error.

        If a merged request is refused, the error is that of a request for these items alone.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((items, answer))
        if len(self._workers) < _UNDER_WAY:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await answer

    async def _work(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft()]
            size = len(taken[0][0])
            while self._waiting and size + len(self._waiting[0][0]) <= _MOST:
                taken.append(self._waiting.popleft())
                size += len(taken[-1][0])
            await self._answer([each for each in taken if not each[1].done()])

    async def _answer(self, taken: Sequence[tuple[Sequence[Any], asyncio.Future[Any]]]) -> None:
        if not taken:
            return
        behind = tuple(self._waiting)
        try:
            whole = await self._send([item for items, _ in taken for item in items])
        except StoreUnavailableError as error:
            for _, answer in (*taken, *behind):
                _settle(answer, error=_copied(error))
            return
        except Exception as error:
            if len(taken) == 1:
                _settle(taken[0][1], error=error)
                return
            for each in taken:  # each caller gets the error of its own request
                await self._answer([each])
            return
        start = 0
        for items, answer in taken:
            _settle(answer, self._part(items, start, whole))
            start += len(items)


def slice_of(items: Sequence[Any], start: int, whole: Sequence[Any]) -> Any:
    """Return the answer for these items: one element for each item, from ``start`` on."""
    return whole[start : start + len(items)]


def points_of(items: Sequence[Any], start: int, whole: Sequence[Any]) -> Any:
    """Return the points whose ids are the items."""
    del start
    ids = set(map(str, items))
    return [point for point in whole if str(point.id) in ids]


def _copied(error: StoreUnavailableError) -> StoreUnavailableError:
    """Return a copy of the error, because each caller adds its own traceback to the error that it gets."""
    same = copy(error)
    same.__cause__ = error.__cause__
    return same


def _settle(answer: asyncio.Future[Any], value: Any = None, error: Exception | None = None) -> None:
    if answer.done():  # the caller has stopped waiting
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(value)
