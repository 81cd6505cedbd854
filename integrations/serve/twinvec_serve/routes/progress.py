"""The progress of work as server-sent events: any number of ``progress``, then one ``report`` or ``error``.

``progress`` has the field ``waiting`` (true) while the work waits for other work on the same collection, after the
first second. It has ``received`` (true) once the whole body has been read; from then on, the work goes on without its
client. For an ingest, ``report`` has the counts so far, for a client that loses the connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

import anyio
from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Message, Receive, Scope, Send

from twinvec_serve.collections.work import Work
from twinvec_serve.errors import ServerStopsError, error_answer
from twinvec_serve.routes.answers import json_answer
from twinvec_serve.services import Services
from twinvec_serve.settings import LAST_ANSWERS_SECONDS

EVENTS = "text/event-stream"

PROGRESS: dict[int | str, dict[str, Any]] = {
    200: {"content": {EVENTS: {"schema": {"type": "string", "description": "progress, and report or error."}}}}
}
"""An answer in events, as OpenAPI describes it."""

_EVERY_SECONDS = 0.25
_PING_SECONDS = 10
_LAST_EVENT_SECONDS = 1.5  # time to send the last event, before the server closes the connection
_SILENT_SECONDS = 1.0  # a longer wait for other work is reported


class ProgressAnswer(EventSourceResponse):
    """Sends the progress of work; when the client goes away, the work goes on.

    ``ended`` is set when the request's body has been read; until then, only the work may read from the client. The work
    may go on for ``stop_seconds`` after the signal to stop, and then ends with an error. If the work encodes a large
    batch and does not end soon, the last event is this error all the same.
    """

    def __init__(self, work: Work[Any], ended: asyncio.Event, stop_seconds: float) -> None:
        stopping, given_up = anyio.Event(), stop_seconds + LAST_ANSWERS_SECONDS
        events = _events(work, ended, stopping, given_up - _LAST_EVENT_SECONDS)
        super().__init__(events, ping=_PING_SECONDS, shutdown_event=stopping, shutdown_grace_period=given_up)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def after_the_body() -> Message:
            await self._ended.wait()
            return await receive()

        await super().__call__(scope, after_the_body, send)


async def work_answer(
    work: Work[Any], request: Request, shared: Services, ended: asyncio.Event | None = None
) -> Response:
    """Return the report as JSON when the work is done, or at once a stream of events, if the request accepts one.

    ``ended`` is an event that is set when the request's body has been read; default: the body has been read.
    """
    if EVENTS not in request.headers.get("accept", ""):
        return json_answer(_as_fields(await asyncio.shield(work.done)))
    if ended is None:
        ended = asyncio.Event()
        ended.set()
    return ProgressAnswer(work, ended, shared.settings.stop_seconds)


async def _events(
    work: Work[Any], ended: asyncio.Event, stopping: anyio.Event, stop_seconds: float
) -> AsyncIterator[ServerSentEvent]:
    """Yield the events of work until its end, or until ``stop_seconds`` after ``stopping`` is set."""
    told: dict[str, Any] = {}
    begun = running = time.monotonic()
    while True:
        await asyncio.wait([work.done], timeout=_EVERY_SECONDS if told else 0)
        waiting = (work.waits and time.monotonic() >= begun + _SILENT_SECONDS) or None
        now = {**work.progress, "waiting": waiting, "received": ended.is_set() or None}
        if now != told:
            told = now
            yield _event("progress", {name: value for name, value in now.items() if value is not None})
        if work.done.done():
            break
        if not stopping.is_set():
            running = time.monotonic()
        elif time.monotonic() >= running + stop_seconds:
            yield _error(ServerStopsError(), work)
            return
    error = work.done.exception()
    if error is None:
        yield _event("report", _as_fields(work.done.result()))
    elif isinstance(error, Exception):
        yield _error(error, work)
    else:
        raise error


def _error(error: Exception, work: Work[Any]) -> ServerSentEvent:
    return _event("error", {**json.loads(bytes(error_answer(error).body)), **work.so_far})


def _as_fields(report: Any) -> dict[str, Any]:
    return report if isinstance(report, dict) else asdict(report)


def _event(name: str, values: Any) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(values, ensure_ascii=False), event=name)
