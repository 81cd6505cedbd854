"""Count and log every request, and answer errors that no route has caught.

The log has the method, the route's pattern, the status and the time, but no path, query, header or body.
"""

from __future__ import annotations

import asyncio
import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinvec_serve.errors import ServerStopsError, error_answer
from twinvec_serve.observing.metrics import Metrics

logger = logging.getLogger(__name__)

_NO_ROUTE = "none"
_FAILED = 500
_GONE = 499  # the client went away before an answer began


class Observed:
    """Middleware that counts and logs requests, and answers errors that no route has caught."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 0

        async def noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting_status)
        except asyncio.CancelledError:  # the server stops, and no longer waits for the request
            if status:
                raise
            await error_answer(ServerStopsError())(scope, receive, noting_status)
        except Exception as error:
            answer = error_answer(error)  # also logs the error
            if status:
                raise ConnectionAbortedError("an answer was cut off by an error, which is logged above") from None
            await answer(scope, receive, noting_status)
        finally:
            self._note(scope, status or _GONE, time.perf_counter() - begun)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", _NO_ROUTE)
        self._metrics.requests(route, status, seconds)
        level = logging.WARNING if status >= _FAILED else logging.INFO
        logger.log(level, "%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)
