"""Limits on the silence of a client that does not read its answer, such as a backup, or does not confirm its end."""

from __future__ import annotations

import asyncio
import logging

from twinvec_serve.safety.request_heads import LimitedHeads
from twinvec_serve.safety.silence import IDLE_SECONDS

_GOODBYE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class LimitedReaders(LimitedHeads):
    """The server's protocol; it also ends a connection whose client reads nothing of an answer for too long.

    The server holds a part of the answer and waits for the client. Without a limit, the request would never end.

    At the stop of the server, a connection over TLS would stay for 30 seconds, until the client confirms its end. A
    client that keeps an idle connection for its next request does not look for such a message.
    """

    _unread = 0
    _check: asyncio.TimerHandle | None = None
    _goodbye: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._begin_check()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_check()

    def shutdown(self) -> None:
        super().shutdown()
        self._goodbye = self.loop.call_later(_GOODBYE_SECONDS, self._end_if_answered)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_check()
        if self._goodbye is not None:
            self._goodbye.cancel()
        super().connection_lost(exc)

    def _begin_check(self) -> None:
        self._unread = self.transport.get_write_buffer_size()
        self._check = self.loop.call_later(IDLE_SECONDS, self._end_if_silent)

    def _end_check(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def _end_if_silent(self) -> None:
        if self.transport.get_write_buffer_size() < self._unread:
            self._begin_check()
            return
        logger.warning("a client read nothing of an answer for %g s; its connection is closed", IDLE_SECONDS)
        self.transport.abort()

    def _end_if_answered(self) -> None:
        if self.is_answering() or self.transport.get_write_buffer_size():
            self._goodbye = self.loop.call_later(_GOODBYE_SECONDS, self._end_if_answered)
        else:
            self.transport.abort()
