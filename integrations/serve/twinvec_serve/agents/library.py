"""How the tools for agents reach the collections of a store.

``twinvec serve`` gives the tools its open collections (``OpenCollections``). ``twinvec mcp`` gives the tools a
``Library``, which opens each collection at its first use. Processes take turns at an embedded store, so other commands
can use it too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from twinvec.engines import Precision
from twinvec.errors import StoreUnavailableError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant import Collection, CollectionGoneError, list_collections, open_with_one_of


class Shelf(Protocol):
    """The collections of one store, as the tools use them."""

    async def names(self) -> list[str]:
        """Return the names of all collections."""

    async def open(self, name: str) -> Collection:
        """Return a collection, which stays open; raise CollectionNotFoundError if no collection has the name."""

    def using(self, opened: Collection) -> AbstractContextManager[None]:
        """Return a context manager for calls of an open collection, which another program may drop or replace."""


class Library:
    """The collections of a store, each opened at its first use. A model of several collections is loaded once.

    Args:
        path: Folder of an embedded store; default without ``url``: ``DEFAULT_PATH``.
        url: Address of a Qdrant server.
        precision: Number format in which the models compute.
        wait_seconds: Longest wait for another process that uses a collection, or for a busy server.
    """

    def __init__(
        self, path: Path | None, url: str | None, precision: Precision = "auto", wait_seconds: float = 10.0
    ) -> None:
        self.path = path
        self.url = url
        self._precision: Precision = precision
        self._wait_seconds = wait_seconds
        self._opened: dict[str, Collection] = {}
        self._lock = asyncio.Lock()

    async def names(self) -> list[str]:
        """Return the names of all collections made by twinvec, including damaged ones of an embedded store."""
        entries = await asyncio.to_thread(list_collections, self.path, url=self.url)
        return [each.name for each in entries if each.model is not None or self.url is None]

    async def open(self, name: str) -> Collection:
        """Return a collection, which stays open."""
        async with self._lock:
            if name not in self._opened:
                self._opened[name] = await asyncio.to_thread(self._open, name)
            return self._opened[name]

    @contextmanager
    def using(self, opened: Collection) -> Iterator[None]:
        """In the block, close the collection if its folder was removed or replaced; the next call opens it again.

        Raise StoreUnavailableError in this case.
        """
        try:
            yield
        except CollectionGoneError as error:
            if self._opened.get(opened.name) is opened:
                del self._opened[opened.name]
            opened.close()
            raise StoreUnavailableError(
                f"the collection {opened.name!r} has been removed or replaced; call the tool again"
            ) from error

    def close(self) -> None:
        """Close all collections."""
        while self._opened:
            self._opened.popitem()[1].close()

    def _open(self, name: str) -> Collection:
        loaded = [each.loaded_encoder for each in self._opened.values() if each.loaded_encoder is not None]
        return open_with_one_of(loaded, partial(self._open_with, name))

    def _open_with(self, name: str, encoder: SpaceEncoder | None) -> Collection:
        """Open a collection with an encoder, or, if it is None, with the model that the collection records."""
        precision = self._precision if encoder is None else "auto"  # an encoder has a precision of its own
        return Collection.open(
            name,
            self.path,
            url=self.url,
            encoder=encoder,
            create=False,
            precision=precision,
            wait_seconds=self._wait_seconds,
        )
