"""List the collections of a store, and drop one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinvec.errors import CollectionNotFoundError, StoreCorruptError
from twinvec_qdrant.opening_store import GRPC_PORT, QdrantClient, StorePlace, find_store, store_at
from twinvec_qdrant.records.description import ADOPTION, check_ours


@dataclass(frozen=True, slots=True)
class CollectionEntry:
    """A collection in a store.

    Attributes:
        name: Its name.
        model: Name of its model; None if twinvec did not create the collection or cannot read it.
        dim: Size of its vectors.
        adopting: Whether an adoption of the collection was begun and is not finished; ``adopt_collection`` finishes it.
    """

    name: str
    model: str | None
    dim: int | None
    adopting: bool = field(default=False, kw_only=True)


def list_collections(
    path: str | Path | None = None,
    *,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    wait_seconds: float = 10.0,
    grpc: bool = False,
    grpc_port: int = GRPC_PORT,
) -> list[CollectionEntry]:
    """List the collections of a store, without opening them; arguments and errors are those of ``Collection.open``."""
    with closing(store_at(StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port))) as store:
        found = sorted(store.descriptions().items())
    return [_entry(name, description) for name, description in found]


def _entry(name: str, description: Mapping[str, Any]) -> CollectionEntry:
    if description.get(ADOPTION):
        return CollectionEntry(name, None, None, adopting=True)
    if "twinvec" not in description:  # metadata of another program may have the keys "model" and "dim", too
        return CollectionEntry(name, None, None)
    return CollectionEntry(name, description.get("model"), description.get("dim"))


def drop_collection(
    name: str,
    path: str | Path | None = None,
    *,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    wait_seconds: float = 10.0,
    grpc: bool = False,
    grpc_port: int = GRPC_PORT,
) -> None:
    """Remove a collection and all it holds, for good; arguments are those of ``Collection.open``.

    Raises:
        CollectionNotFoundError: the collection does not exist.
        ConfigurationError: twinvec did not create the collection.
        StoreBusyError: the embedded collection is open, in this process or in another.
        StoreUnavailableError: the server does not answer, or the folder cannot be removed.
    """
    with closing(find_store(name, StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port))) as store:
        try:
            description = store.peek()
        except StoreCorruptError:  # an embedded collection is dropped even if it is damaged
            description = {}
        if description is None:
            raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
        if description or url is not None or client is not None:
            check_ours(description, store.location)
        store.drop()
