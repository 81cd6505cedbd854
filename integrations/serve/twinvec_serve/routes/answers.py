"""The forms of the server's answers: JSON, and an archive that is sent in pieces."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import orjson
from fastapi import Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

TRUNCATED = "Twinvec-Truncated"
"""The header of an answer with the number of truncated texts of the request."""

TAR = "application/x-tar"
ARCHIVE: dict[int | str, dict[str, Any]] = {
    200: {"description": "A tar archive.", "content": {TAR: {"schema": {"type": "string", "format": "binary"}}}}
}
"""An answer that is an archive, as OpenAPI describes it."""


class ArchiveAnswer(StreamingResponse):
    """Sends the pieces of an archive. It closes ``stack`` at the end, and if the client leaves or the server stops."""

    media_type = TAR

    def __init__(self, pieces: AsyncIterator[bytes], stack: AsyncExitStack) -> None:
        super().__init__(pieces)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            try:
                await super().__call__(scope, receive, send)
            except asyncio.CancelledError:  # the connection closes without the last piece, so the client notices
                logger.warning("an archive was cut off, because the server stops")


def json_answer(values: Any) -> Response:
    """Return an answer in JSON. Every number in it reads back as the same number."""
    try:
        content = orjson.dumps(values)
    except TypeError:  # a payload holds an integer of more than 64 bits
        content = json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    return Response(content, media_type="application/json")
