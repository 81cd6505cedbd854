"""Count and log every request, and answer errors that no route has caught.

The log has the method, the route's pattern, the status and the time, but no path, query, header or body. Each request
has an id, which its answer repeats: that of the header ``X-Request-Id``, which proxies send, else a random one.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from uuid import uuid4

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinvec_serve.errors import ServerStopsError, error_answer
from twinvec_serve.observing.logs import REQUEST_ID, with_fields
from twinvec_serve.observing.metrics import Metrics

logger = logging.getLogger(__name__)

_NO_ROUTE = "none"
_FAILED = 500
_GONE = 499  # the client went away before an answer began
_HEADER = b"x-request-id"
_ID = re.compile(rb"[\w.:/+=-]{1,128}")


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
        request_id = _id_of(scope)
        REQUEST_ID.set(request_id.decode())

        async def noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (_HEADER, request_id)]
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
        method, milliseconds = scope["method"], round(1000 * seconds, 1)
        fields = with_fields(method=method, route=route, status=status, duration_ms=milliseconds)
        logger.log(level, "%s %s %d %.1f ms", method, route, status, milliseconds, extra=fields)


def _id_of(scope: Scope) -> bytes:
    """Return the id of a request: that of its header if the header has a usual form, else a random one."""
    given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
    return given if _ID.fullmatch(given) else uuid4().hex.encode()
