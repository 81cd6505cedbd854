"""The tools' access to the collections of a store: their names, and each collection open.

A server gives the tools its open collections (``OpenCollections``). ``twinvec mcp`` over standard input gives them a
``Library``, which opens each collection at its first use. Processes take turns at an embedded store, so other commands
can use it too.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Protocol

from twinvec_qdrant import Collection, list_collections, open_with_one_of


class Shelf(Protocol):
    """The collections of one store."""

    async def names(self) -> list[str]:
        """Return the names of all collections."""

    async def open(self, name: str) -> Collection:
        """Return a collection, which stays open; raise CollectionNotFoundError if no collection has the name."""


class Library:
    """The collections of a store, each opened at its first use. A model of several collections is loaded once."""

    def __init__(self, path: Path | None, url: str | None) -> None:
        self._path = path
        self._url = url
        self._opened: dict[str, Collection] = {}
        self._lock = asyncio.Lock()

    async def names(self) -> list[str]:
        """Return the names of all collections made by twinvec, including damaged ones of an embedded store."""
        entries = await asyncio.to_thread(list_collections, self._path, url=self._url)
        return [each.name for each in entries if each.model is not None or self._url is None]

    async def open(self, name: str) -> Collection:
        """Return a collection, which stays open."""
        async with self._lock:
            if name not in self._opened:
                self._opened[name] = await asyncio.to_thread(self._open, name)
            return self._opened[name]

    def close(self) -> None:
        """Close all collections."""
        while self._opened:
            self._opened.popitem()[1].close()

    def _open(self, name: str) -> Collection:
        loaded = [each.loaded_encoder for each in self._opened.values() if each.loaded_encoder is not None]
        return open_with_one_of(loaded, partial(Collection.open, name, self._path, url=self._url, create=False))
