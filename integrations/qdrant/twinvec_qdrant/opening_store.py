"""Find the store that the arguments of ``Collection.open`` name."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinvec.errors import ConfigurationError
from twinvec.support.checks import check_flags, file_path, integer, number
from twinvec_qdrant.serving.names import check_name
from twinvec_qdrant.serving.process import DEFAULT_PATH
from twinvec_qdrant.stores.base import Store

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient as AsyncQdrantClient
    from qdrant_client import QdrantClient as QdrantClient
else:
    AsyncQdrantClient = QdrantClient = Any  # annotations can be resolved without importing the client, which is slow

API_KEY_VARIABLE, API_KEY_FILE_VARIABLE = "QDRANT_API_KEY", "QDRANT_API_KEY_FILE"
GRPC_PORT = 6334
"""The port of Qdrant's gRPC interface, unless set otherwise."""

_UNNAMED = "-"  # stands for the name of a collection if a store is opened for all of them; no message shows it


@dataclass(frozen=True, slots=True)
class StorePlace:
    """The address of a store and the way to reach it; the fields are arguments of ``Collection.open``."""

    path: str | Path | None = None
    url: str | None = None
    client: QdrantClient | None = None
    api_key: str | None = field(default=None, repr=False)
    wait_seconds: float = 10.0
    grpc: bool = False
    grpc_port: int = GRPC_PORT
    async_client: AsyncQdrantClient | None = None
    repair: bool = False


def find_store(name: str, place: StorePlace) -> Store:
    """Return the store of the collection ``name``; errors are those of ``Collection.open``."""
    check_name(name)
    return store_at(place, name)


def store_at(place: StorePlace, name: str = "") -> Store:
    """Return the store for the collection ``name``, or for all collections; errors are those of ``Collection.open``."""
    _check(place)
    if place.url is not None:
        from twinvec_qdrant.stores.server.store import connect

        key = place.api_key or key_from_environment()
        grpc_port = place.grpc_port if place.grpc else None
        return connect(name, place.url, key, place.wait_seconds, place.async_client, grpc_port)
    if place.client is not None:
        from twinvec_qdrant.stores.server.store import ServerStore

        waits, waited = place.wait_seconds, place.async_client
        return ServerStore(name, place.client, "client", owned=False, wait_seconds=waits, async_client=waited)
    if place.async_client is not None:
        from twinvec_qdrant.stores.server.store import connect_as

        return connect_as(place.async_client, name, place.wait_seconds)
    from twinvec_qdrant.stores.embedded.store import EmbeddedStore

    return EmbeddedStore(place.path or DEFAULT_PATH, name or _UNNAMED, place.wait_seconds, repair=place.repair)


def _check(place: StorePlace) -> None:
    check_flags(grpc=place.grpc, repair=place.repair)
    if sum(each is not None for each in (place.path, place.url, place.client)) > 1:
        raise ConfigurationError("give one of path, url and client")
    _check_clients(place)
    if place.path is not None and place.async_client is not None:
        raise ConfigurationError("async_client is for a server, and path names an embedded store")
    if not isinstance(place.api_key, str | None):  # the error shows no value, which may hold the key
        raise ConfigurationError(f"the API key must be a string, got {type(place.api_key).__name__}")
    if place.api_key is not None and place.url is None:
        raise ConfigurationError("api_key needs url")
    if place.grpc and place.url is None:
        raise ConfigurationError("grpc needs url; a client speaks gRPC if it was made with prefer_grpc=True")
    if place.path is not None:
        file_path(place.path, "path")
    if not 1 <= integer(place.grpc_port, "grpc_port") <= 65_535:
        raise ConfigurationError(f"grpc_port must be from 1 to 65535, got {place.grpc_port!r}")
    if place.repair and (place.url is not None or place.client is not None):
        raise ConfigurationError("repair is for damaged files of an embedded store; a server repairs its own files")
    number(place.wait_seconds, "wait_seconds", least=0)


def _check_clients(place: StorePlace) -> None:
    """Check the types of clients; an error shows no value, which may hold a key."""
    if place.client is None and place.async_client is None:
        return
    import qdrant_client

    kinds = {"client": qdrant_client.QdrantClient, "async_client": qdrant_client.AsyncQdrantClient}
    for name, kind in kinds.items():
        given = getattr(place, name)
        if given is not None and not isinstance(given, kind):
            raise ConfigurationError(f"{name}: expected {kind.__name__}, got {type(given).__name__}")


def key_from_environment() -> str | None:
    """Return the API key from ``QDRANT_API_KEY``, or from the file that ``QDRANT_API_KEY_FILE`` names; None without.

    Raises:
        ConfigurationError: the file cannot be read.
    """
    if key := os.environ.get(API_KEY_VARIABLE):
        return key
    if not (file := os.environ.get(API_KEY_FILE_VARIABLE)):
        return None
    try:
        return Path(file).read_text(encoding="utf-8-sig").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        # the message quotes neither the file nor the variable, which may hold the key itself by mistake
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"the file that {API_KEY_FILE_VARIABLE} names cannot be read: {reason}") from None
