"""Stores as a whole: which one the arguments of ``Collection.open`` name, what it holds, and how to remove of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinvec.errors import CollectionNotFoundError, ConfigurationError
from twinvec_qdrant.records.description import check_ours
from twinvec_qdrant.stores.base import Store

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

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
) -> Store:
    """The store of the collection ``name``; see ``Collection.open`` for the arguments.

    Raises:
        ConfigurationError: the arguments contradict one another, or the name or the url cannot be used.
    """
    if sum(each is not None for each in (path, url, client)) > 1:
        raise ConfigurationError("give one of path, url and client")
    if api_key is not None and url is None:
        raise ConfigurationError("api_key goes with url")
    if wait_seconds < 0:
        raise ConfigurationError(f"wait_seconds must not be negative, got {wait_seconds!r}")
    if url is not None:
        from twinvec_qdrant.stores.server.store import connect

        return connect(name, url, api_key or _key_of_environment(), wait_seconds)
    if client is not None:
        from twinvec_qdrant.stores.server.store import ServerStore

        return ServerStore(name, client, "client", owned=False, wait_seconds=wait_seconds)
    from twinvec_qdrant.stores.embedded.backend import EmbeddedStore

    return EmbeddedStore(path or DEFAULT_PATH, name, wait_seconds)


def _key_of_environment() -> str | None:
    """The key that the environment holds, or the file that it names."""
    if key := os.environ.get(API_KEY_VARIABLE):
        return key
    if not (file := os.environ.get(API_KEY_FILE_VARIABLE)):
        return None
    try:
        return Path(file).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        # nothing of what the file holds, nor of the variable: whoever mixes it up with the other puts the key there
        reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise ConfigurationError(f"the file that {API_KEY_FILE_VARIABLE} names cannot be read: {reason}") from None


@dataclass(frozen=True, slots=True)
class CollectionEntry:
    """A collection in a store.

    Attributes:
        name: Its name.
        model: Name of the model in force; None for a collection that twinvec did not make or cannot read.
        dim: Size of its vectors.
    """

    name: str
    model: str | None
    dim: int | None


def list_collections(
    path: str | Path | None = None,
    *,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    wait_seconds: float = 10.0,
) -> list[CollectionEntry]:
    """The collections of a store in the order of their names, without opening them; arguments and errors are those of
    ``Collection.open``.
    """
    store = find_store("any", path, url, client, api_key, wait_seconds)
    try:
        found = sorted(store.descriptions().items())
    finally:
        store.close()
    return [CollectionEntry(name, each.get("model"), each.get("dim")) for name, each in found]


def drop_collection(
    name: str,
    path: str | Path | None = None,
    *,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    wait_seconds: float = 10.0,
) -> None:
    """Remove a collection with all it holds, for good; arguments are those of ``Collection.open``.

    Raises:
        CollectionNotFoundError: there is none of this name.
        ConfigurationError: twinvec did not make it.
        StoreBusyError: an embedded one is open, here or in another process.
        StoreUnavailableError: the server does not answer, or the folder cannot be removed.
    """
    store = find_store(name, path, url, client, api_key, wait_seconds)
    try:
        found = store.descriptions()
        if name not in found:
            raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
        if found[name] or url is not None or client is not None:  # below a path, a damaged one is ours too
            check_ours(found[name], store.location)
        store.drop()
    finally:
        store.close()
