"""Find the store that the arguments of ``Collection.open`` name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from twinvec.errors import ConfigurationError
from twinvec_qdrant.stores.base import Store

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

DEFAULT_PATH = "./.twinvec"
API_KEY_VARIABLE = "QDRANT_API_KEY"
API_KEY_FILE_VARIABLE = "QDRANT_API_KEY_FILE"


def find_store(
    name: str,
    path: str | Path | None,
    url: str | None,
    client: QdrantClient | None,
    api_key: str | None,
    wait_seconds: float,
    async_client: AsyncQdrantClient | None = None,
) -> Store:
    """Return the store of the collection ``name``; arguments and errors are as for ``Collection.open``."""
    if sum(each is not None for each in (path, url, client)) > 1:
        raise ConfigurationError("give one of path, url and client")
    if path is not None and async_client is not None:
        raise ConfigurationError("async_client is for a server, and path names an embedded store")
    if api_key is not None and url is None:
        raise ConfigurationError("api_key goes with url")
    if wait_seconds < 0:
        raise ConfigurationError(f"wait_seconds must not be negative, got {wait_seconds!r}")
    if url is not None:
        from twinvec_qdrant.stores.server.store import connect

        return connect(name, url, api_key or _key_from_environment(), wait_seconds, async_client)
    if client is not None:
        from twinvec_qdrant.stores.server.store import ServerStore

        return ServerStore(name, client, "client", owned=False, wait_seconds=wait_seconds, async_client=async_client)
    if async_client is not None:
        from twinvec_qdrant.stores.server.store import connect_as

        return connect_as(async_client, name, wait_seconds)
    from twinvec_qdrant.stores.embedded.store import EmbeddedStore

    return EmbeddedStore(path or DEFAULT_PATH, name, wait_seconds)


def _key_from_environment() -> str | None:
    if key := os.environ.get(API_KEY_VARIABLE):
        return key
    if not (file := os.environ.get(API_KEY_FILE_VARIABLE)):
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        # the message quotes neither the file nor the variable, which may hold the key itself by mistake
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"the file that {API_KEY_FILE_VARIABLE} names cannot be read: {reason}") from None
