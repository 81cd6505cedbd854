"""List the collections of a store, and drop one."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from twinvec.errors import CollectionNotFoundError
from twinvec_qdrant.opening_store import GRPC_PORT, QdrantClient, StorePlace, find_store, store_at
from twinvec_qdrant.records.description import check_ours


@dataclass(frozen=True, slots=True)
class CollectionEntry:
    """A collection in a store.

    Attributes:
        name: Its name.
        model: Name of its model; None if twinvec did not create the collection or cannot read it.
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
    grpc: bool = False,
    grpc_port: int = GRPC_PORT,
) -> list[CollectionEntry]:
    """List the collections of a store, without opening them; arguments and errors are those of ``Collection.open``."""
    with closing(store_at(StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port))) as store:
        found = sorted(store.descriptions().items())
    return [CollectionEntry(name, each.get("model"), each.get("dim")) for name, each in found]


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
        found = store.descriptions()
        if name not in found:
            raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
        # an embedded collection is dropped even if it is damaged
        if found[name] or url is not None or client is not None:
            check_ours(found[name], store.location)
        store.drop()
