"""The progress of an ingest as server-sent events: any number of ``progress``, then one ``report`` or ``error``.

``progress`` has ``waiting`` (true) while the ingest waits for others of the same collection, if that takes long, and
``received`` (true) once the whole body has been read: from then on, the ingest goes on without its client. The
field ``report`` has the counts of the report so far, for a client that loses the connection.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Message, Receive, Scope, Send

from twinvec_serve.collections.ingests import Ingest
from twinvec_serve.errors import error_answer

EVENTS = "text/event-stream"

_EVERY_SECONDS = 0.25
_PING_SECONDS = 10
_SILENT_SECONDS = 1.0  # a longer wait for other ingests is told


class ProgressAnswer(EventSourceResponse):
    """Tells the progress of an ingest; when the client goes away, the ingest goes on.

    ``ended`` is set when the request's body has been read; until then, only the ingest receives from the client. The
    answer may go on for ``stop_seconds`` after the signal to stop.
    """

    def __init__(self, ingest: Ingest, ended: asyncio.Event, stop_seconds: float) -> None:
        super().__init__(_events(ingest, ended), ping=_PING_SECONDS, shutdown_grace_period=stop_seconds)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def after_the_body() -> Message:
            await self._ended.wait()
            return await receive()

        await super().__call__(scope, after_the_body, send)


async def _events(ingest: Ingest, ended: asyncio.Event) -> AsyncIterator[ServerSentEvent]:
    told: dict[str, Any] = {}
    begun = time.monotonic()
    while True:
        await asyncio.wait([ingest.done], timeout=_EVERY_SECONDS if told else 0)
        waiting = (ingest.waits and time.monotonic() >= begun + _SILENT_SECONDS) or None
        now: dict[str, Any] = {
            "done": ingest.counted,
            "total": ingest.total,
            "file": ingest.current,
            "waiting": waiting,
        }
        now["received"] = ended.is_set() or None
        now["report"] = ingest.counts
        if now != told:
            told = now
            yield _event("progress", {name: value for name, value in now.items() if value is not None})
        if ingest.done.done():
            break
    error = ingest.done.exception()
    if error is None:
        yield _event("report", asdict(ingest.done.result()))
    elif isinstance(error, Exception):
        yield _event("error", {**json.loads(bytes(error_answer(error).body)), "report": asdict(ingest.report)})
    else:
        raise error


def _event(name: str, values: Any) -> ServerSentEvent:
    return ServerSentEvent(json.dumps(values, ensure_ascii=False), event=name)
