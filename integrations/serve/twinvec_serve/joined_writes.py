"""Joined writes: the head and the body of an answer leave in one packet.

uvicorn writes the head and the body separately, and uvloop sends each write at once. For a short answer, the second
packet costs the server and its client as much as the first.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class JoinedProtocol(HttpToolsProtocol):
    """uvicorn's protocol, with joined writes."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _JoinedWrites(transport, self.loop)))


class _JoinedWrites:
    """A transport that joins the writes of one round of the event loop, and sends them together in the next round."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def close(self) -> None:
        self._send()
        self._transport.close()

    def _send(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))
