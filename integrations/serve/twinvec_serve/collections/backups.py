"""Backups that clients fetch or send. Each lies in a temporary folder until it is sent or restored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from anyio import CapacityLimiter, to_thread

from twinvec.errors import ConfigurationError
from twinvec_qdrant import Backup, ReceivedBackup, TemporaryBackup, check_new_name
from twinvec_serve.collections.open_collections import OpenCollections
from twinvec_serve.collections.work import Work
from twinvec_serve.errors import Overloaded
from twinvec_serve.observing.metrics import Metrics

logger = logging.getLogger(__name__)

_AT_ONCE = 4  # largest number of backups at the same time, because each takes room on the disk
_RETRY_SECONDS = 1.0


class Backups:
    """The backups of an embedded store. Collections of a Qdrant server (``url``) have none."""

    def __init__(self, collections: OpenCollections, path: Path | None, url: str | None, metrics: Metrics) -> None:
        self._collections = collections
        self._path = path
        self._url = url
        self._metrics = metrics
        self._number = 0
        self._receiving = CapacityLimiter(_AT_ONCE)

    async def start(self) -> None:
        """Remove the backups that killed servers of this user have left."""
        if self._url is None:
            for folder in await self._collections.run(TemporaryBackup.remove_abandoned, self._path):
                logger.warning("removed a backup that a killed server has left: %s", folder)

    @asynccontextmanager
    async def archive(self, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Back up a collection, yield its tar archive in pieces, and remove the backup at the end.

        Raise ConfigurationError for a collection of a Qdrant server, and Overloaded if too many backups are under way.
        """
        self._check_embedded("make a snapshot there instead of a backup")
        self._begin()
        made, over = self._collections.ingests.start(self._made(name)), asyncio.Event()
        self._collections.ingests.start(self._remove(made, over))  # a stop of the server waits for this task
        try:
            yield self._pieces(name, (await asyncio.shield(made)).packed())
        finally:
            over.set()

    async def restore(self, name: str, pieces: Iterator[bytes]) -> Work[Backup]:
        """Begin to restore a new collection from a tar archive, which arrives in pieces. A failure leaves nothing.

        Raise ConfigurationError for a collection of a Qdrant server or a bad name, RequestError (409) if the name is
        taken, and Overloaded if too many backups are under way.
        """
        self._check_embedded("restore a snapshot there instead of a backup")
        check_new_name(name)
        await self._collections.check_free(name)
        self._begin()
        work = Work[Backup]()
        work.waits = False
        work.done = self._collections.ingests.start(self._restored(name, pieces))
        return work

    async def _restored(self, name: str, pieces: Iterator[bytes]) -> Backup:
        try:
            with self._collections.ingests.explaining_errors(None):
                received = await to_thread.run_sync(ReceivedBackup, pieces, self._path, limiter=self._receiving)
            try:
                return await self._collections.restored(name, received.restore)
            finally:
                await self._collections.run(received.remove)
        finally:
            self._number -= 1

    def _check_embedded(self, advice: str) -> None:
        if self._url is not None:
            raise ConfigurationError(f"the collections are in a Qdrant server: {advice}")

    def _begin(self) -> None:
        if self._number >= _AT_ONCE:
            raise Overloaded(_RETRY_SECONDS)
        self._number += 1

    async def _made(self, name: str) -> TemporaryBackup:
        async with self._collections.not_dropped(name):
            return await self._collections.run(TemporaryBackup, name, self._path)

    async def _pieces(self, name: str, packed: Iterator[bytes]) -> AsyncIterator[bytes]:
        while piece := await self._collections.run(next, packed, b""):
            yield piece
        self._metrics.backed_up(name)

    async def _remove(self, made: asyncio.Task[TemporaryBackup], over: asyncio.Event) -> None:
        """Remove a backup when its archive is ``over``, but not before the backup is complete."""
        await over.wait()
        try:
            with suppress(Exception):  # ``archive`` raises the error
                await made
            if not made.exception():
                await self._collections.run(made.result().remove)
        finally:
            self._number -= 1
