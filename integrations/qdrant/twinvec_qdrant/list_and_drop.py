"""List the collections of a store, and drop one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinvec.errors import CollectionNotFoundError
from twinvec_qdrant.records.description import check_ours

if TYPE_CHECKING:
    from qdrant_client import QdrantClient
from twinvec_qdrant.opening_store import find_store


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
