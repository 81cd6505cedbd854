"""Keys and certificates that change while the server runs: their files are read again, and no connection is closed.

They are read again on request (SIGHUP), and when the files have changed. Kubernetes, for example, replaces the files of
a mounted secret and tells nobody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError
from twinvec_serve.safety.exposure import tls_context
from twinvec_serve.safety.key_files import find_keys
from twinvec_serve.safety.keys import Access
from twinvec_serve.settings import ServeSettings

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 2.0  # a change counts once two looks find the same, so it works within 4 s

_State = tuple[tuple[int, int, int] | None, ...]


class Renewal:
    """Reads the file of keys and the files of the certificate again. New keys and certificates work at once.

    If a new file is broken, an error is logged, and the present keys or the present certificate stay.

    Args:
        settings: Settings of the server.
        key_file: File of the keys; those of the environment stay. If the file is a pipe, all keys stay.
        access: The keys that requests are checked against.
        context: The server's context for TLS, if it speaks TLS.
        announce: Writes the certificate into the store's folder, where twinvec's commands find it.
    """

    def __init__(
        self,
        settings: ServeSettings,
        *,
        key_file: Path | None,
        access: Access,
        context: ssl.SSLContext | None,
        announce: Callable[[], Awaitable[None]],
    ) -> None:
        self._key_file = key_file if key_file is not None and key_file.is_file() else None  # a pipe is read only once
        cert, key = settings.tls_cert, settings.tls_key
        self._certificate = None if cert is None or key is None else (cert, key)
        self._access = access
        self._context = context
        self._announce = announce
        self._asked = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._read = self._state()

    def ask(self) -> None:
        """Let ``run`` read the files again at once; a handler of a signal may call this."""
        self._loop.call_soon_threadsafe(self._asked.set)

    async def run(self) -> None:
        """Read the files again when they have changed, or on request, until the task is cancelled."""
        before = self._read
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), _EVERY_SECONDS)
            now = await asyncio.to_thread(self._state)
            if self._asked.is_set() or before == now != self._read:
                self._asked.clear()
                self._read = now
                await self._renew()
            before = now

    def _state(self) -> _State:
        """Return what identifies the present content of each file, without reading it."""
        return tuple(map(_stat, filter(None, (self._key_file, *(self._certificate or ())))))

    async def _renew(self) -> None:
        if self._key_file is not None:
            await self._renew_keys(self._key_file)
        if self._context is not None:
            await self._renew_certificate(self._context)
        if self._key_file is None and self._context is None:
            logger.warning("SIGHUP has no effect: this server has no file of keys and no certificate to read again")

    async def _renew_keys(self, file: Path) -> None:
        try:
            keys = await asyncio.to_thread(find_keys, file, os.environ)
        except ConfigurationError as error:
            logger.error("%s; the server goes on with the present keys", error)
            return
        self._access.read_keys, self._access.write_keys = keys
        logger.info("read the keys again from %s: %d read and %d write keys", file, len(keys.read), len(keys.write))

    async def _renew_certificate(self, context: ssl.SSLContext) -> None:
        assert self._certificate is not None
        try:
            new = await asyncio.to_thread(tls_context, *self._certificate)
            await self._announce()
        except (ConfigurationError, OSError) as error:
            logger.error("%s; the server goes on with the present certificate", error)
            return

        def choose(connection: ssl.SSLObject, *_: Any) -> None:  # the handshake of each new connection calls it
            connection.context = new

        context.sni_callback = choose
        logger.info("read the certificate again from %s", self._certificate[0])


def _stat(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
