"""Limits on the head of a request: its first line and its headers, which arrive before the API key is checked.

uvicorn limits neither the size of a head nor the silence of a client. Without limits, any client could use up the
memory of the server, or the files that it may open.
"""

from __future__ import annotations

import asyncio

from twinvec_serve.joined_writes import JoinedProtocol

_MOST_BYTES = 256 * 1024  # not less than the event loop reads at once, because one read may hold several requests


class LimitedHeads(JoinedProtocol):
    """uvicorn's protocol, with joined writes and limited heads.

    A connection is closed after ``timeout_keep_alive`` seconds of silence before or within a head, also within its
    first one. A head that is too large is answered with 400.
    """

    _in_head = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit_silence()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._limit_silence()
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_BYTES:
                self.send_400_response("The head of the request is too large.")

    def on_message_begin(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def is_answering(self) -> bool:
        """Return whether a request of this connection is being answered."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _limit_silence(self) -> None:
        """Close the connection after a silence of the client, unless the server is answering a request."""
        if not self.is_answering() and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
