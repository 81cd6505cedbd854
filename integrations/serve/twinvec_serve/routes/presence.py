"""Watching the client of a request: if the client goes away, the work for it is cancelled."""

from __future__ import annotations

import asyncio
from types import TracebackType

from fastapi import Request

from twinvec_serve.errors import ClientGoneError

_WATCHED_AFTER = 0.25
"""Seconds until a request is watched. Watching would cost a fifth of the event loop's time for a short request."""


class WhileConnected:
    """Cancels an ``async with`` block when the client goes away, and then raises ClientGoneError.

    The request's body must have been read: the next message is then the end of the connection.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._gone = False
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._begin = asyncio.get_running_loop().call_later(_WATCHED_AFTER, self._begin_watch)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._begin.cancel()
        if self._watch is not None:
            self._watch.cancel()
        if self._gone and self._task.uncancel() == 0 and kind is asyncio.CancelledError:
            raise ClientGoneError from None

    def _begin_watch(self) -> None:
        self._watch = asyncio.get_running_loop().create_task(self._cancel_when_gone())

    async def _cancel_when_gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass
        self._gone = True
        self._task.cancel()
