"""Checks that every request passes: its key, and the size, the encoding and the arrival of its body."""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twinvec_serve.errors import RequestError, error_answer
from twinvec_serve.safety.keys import ALL_RIGHTS, RIGHTS, Access
from twinvec_serve.safety.silence import describe_silence, receive_in_time
from twinvec_serve.settings import ServeSettings

_PUBLIC = re.compile(r"/(healthz|readyz|openapi\.json|docs(/.*)?|page(/.*)?|favicon\.ico)?")
"""Paths that need no key: health, and the page and the description of the API, which contain no data of a store.

Every other path needs a key, even if it has no route.
"""

_STREAMED = re.compile(r"/v1/collections/[^/]+/(documents|restore)/?")
_RESTORE = re.compile(r"/v1/collections/[^/]+/restore/?")
_STREAMED_TYPES = ("application/x-ndjson", "multipart/form-data", "application/x-tar")
_AGENTS = "/mcp"
_AGENT_BYTES = 512 * 1024
"""Largest request of an agent, which the SDK parses on the event loop.

The queries of the longest search have 32,000 characters of up to 12 bytes each (an emoji escaped in JSON).
"""


class Border:
    """Refuses requests without a known key (401), bodies over the limit (413), and compressed bodies (415).

    A client that falls silent within its body gets 408. The routes of streamed bodies measure the silence themselves.
    """

    def __init__(self, app: ASGIApp, settings: ServeSettings, access: Access) -> None:
        self._app = app
        self._settings = settings
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        limit = self._limit(scope["path"], headers)
        too_large = _too_large(limit, scope["path"])
        try:
            public = _PUBLIC.fullmatch(scope["path"]) is not None
            scope[RIGHTS] = ALL_RIGHTS if public else self._access.rights(headers)
            declared = headers.get("content-length", "")
            if declared.isdecimal() and int(declared) > limit:
                raise too_large
            _check_encoding(headers)
        except (RequestError, HTTPException) as error:
            await error_answer(error)(scope, receive, send)
            return
        if _STREAMED.fullmatch(scope["path"]) is None:
            receive = _InTime(receive)
        await self._app(scope, _Counted(receive, limit, too_large), send)

    def _limit(self, path: str, headers: Headers) -> int:
        if path == _AGENTS:
            return min(_AGENT_BYTES, self._settings.max_body_bytes)
        streamed = _STREAMED.fullmatch(path) and headers.get("content-type", "").lower().startswith(_STREAMED_TYPES)
        return self._settings.max_ingest_bytes if streamed else self._settings.max_body_bytes


class _InTime:
    """Receives the messages of a request; raises an error if the client falls silent before the end of its body."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def __call__(self) -> Message:
        if self._ended:  # the caller waits for the end of the connection
            return await self._receive()
        try:
            message = await receive_in_time(self._receive)
        except TimeoutError:
            raise HTTPException(  # as in ``_too_large``
                408,
                f"the client {describe_silence()} before the end of the body; send the request again",
                headers={"Connection": "close"},
            ) from None
        self._ended = not message.get("more_body", False)
        return message


class _Counted:
    """Receives the messages of a request; raises an error when the body exceeds the limit."""

    def __init__(self, receive: Receive, limit: int, too_large: HTTPException) -> None:
        self._receive = receive
        self._limit = limit
        self._too_large = too_large
        self._received = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._limit:
                raise self._too_large
        return message


def _check_encoding(headers: Headers) -> None:
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise RequestError(
            f"the body is compressed (Content-Encoding: {encoding:.40}); this server reads uncompressed bodies only",
            code="unsupported_encoding",
            status=415,
            headers={"Accept-Encoding": "identity"},
        )


def _too_large(limit: int, path: str) -> HTTPException:
    """Return the error as an HTTPException, which FastAPI passes on while it reads a body."""
    advice = "start the server with a larger limit (--max-body-mb, --max-ingest-mb)"
    if path == _AGENTS:
        advice = "send fewer or shorter arguments"
    elif _RESTORE.fullmatch(path) is None:
        advice = f"send it in parts, or {advice}"
    return HTTPException(
        413,
        f"the body is larger than this server's limit of {limit:,} bytes; {advice}",
        headers={"Connection": "close"},
    )
