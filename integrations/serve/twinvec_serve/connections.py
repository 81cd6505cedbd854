"""Connections of clients: uvicorn's, which send the head of an answer together with its body.

uvicorn writes the two one after the other, and each write is a system call here and wakes the client.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Connection(HttpToolsProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to serve a client."""
        super().connection_made(JoinedWrites(transport, self.loop))  # type: ignore[arg-type]


class JoinedWrites:
    """A transport that keeps what is written until the next write, or until the event loop's next round.

    Everything else is the given transport's.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._kept = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep data, or write it after what is kept."""
        if self._kept:
            kept, self._kept = self._kept, b""
            self._transport.writelines([kept, data])
        elif data:
            self._kept = data
            self._loop.call_soon(self._write_kept)

    def close(self) -> None:
        """Write what is kept, and close the connection."""
        self._write_kept()
        self._transport.close()

    def _write_kept(self) -> None:
        if self._kept:
            kept, self._kept = self._kept, b""
            self._transport.write(kept)
