"""Limits of the head of a request: its first line and its headers, which come before the key of a client is checked.

uvicorn limits neither the size of a head nor how long its client is silent. Any client could then take memory, and keep
one of the files that the process may open for as long as it likes.
"""

from __future__ import annotations

import asyncio

from twinvec_serve.joined_writes import JoinedProtocol

_MOST_BYTES = 256 * 1024  # the most that an event loop reads at once: the parts of one read may be several requests


class LimitedHeads(JoinedProtocol):
    """The server's protocol: that of uvicorn, with joined writes and limited heads.

    A connection is closed if it is silent for ``timeout_keep_alive`` seconds before it has sent a whole head, also the
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

    def _limit_silence(self) -> None:
        """Close the connection after a silence, unless a request is being answered or the client sends data before."""
        is_answering = bool(self.cycle) and not self.cycle.response_complete
        if not is_answering and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )
