"""A view of an embeddings cache that separates models, and queries from texts.

LlamaIndex looks up a vector by its text alone, so a cache that models share, or queries and texts with different
prompts, would return wrong vectors. This view adds the model's space, and "query" or "text", to every key.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from llama_index.core.storage.kvstore.types import DEFAULT_COLLECTION, BaseKVStore

Side = Literal["query", "text"]

_side: ContextVar[Side] = ContextVar("twinvec_cache_side", default="text")


@contextmanager
def query_lookup() -> Iterator[None]:
    """Look up texts as queries inside the block."""
    token = _side.set("query")
    try:
        yield
    finally:
        _side.reset(token)


class SpaceCache(BaseKVStore):
    """A view of ``store`` in which every key belongs to one space and to queries or texts."""

    def __init__(self, store: BaseKVStore, space: str) -> None:
        self.store = store
        self.space = space

    def put(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        self.store.put(self._key(key), val, collection)

    async def aput(self, key: str, val: dict[str, Any], collection: str = DEFAULT_COLLECTION) -> None:
        await self.store.aput(self._key(key), val, collection)

    def get(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        return self.store.get(self._key(key), collection)

    async def aget(self, key: str, collection: str = DEFAULT_COLLECTION) -> dict[str, Any] | None:
        return await self.store.aget(self._key(key), collection)

    def get_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """Return everything in the store's collection, by the store's own keys."""
        return self.store.get_all(collection)

    async def aget_all(self, collection: str = DEFAULT_COLLECTION) -> dict[str, dict[str, Any]]:
        """``get_all``, awaitable."""
        return await self.store.aget_all(collection)

    def delete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        return self.store.delete(self._key(key), collection)

    async def adelete(self, key: str, collection: str = DEFAULT_COLLECTION) -> bool:
        return await self.store.adelete(self._key(key), collection)

    def _key(self, text: str) -> str:
        return f"{self.space}:{_side.get()}:{text}"
