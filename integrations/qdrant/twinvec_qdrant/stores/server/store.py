"""A collection's entry on a server: its address and API key, and the other collections of the server."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from qdrant_client import AsyncQdrantClient, QdrantClient, models

from twinvec.errors import CollectionNotFoundError, ConfigurationError, StoreError
from twinvec.support.checks import ADDRESS_FORM, is_loopback, is_server_address
from twinvec_qdrant.stores.base import NewCollection, Store
from twinvec_qdrant.stores.points import DENSE, SPARSE, states_name
from twinvec_qdrant.stores.server import cluster
from twinvec_qdrant.stores.server.async_requests import CONNECTIONS
from twinvec_qdrant.stores.server.backend import ServerBackend
from twinvec_qdrant.stores.server.clients import quiet_client
from twinvec_qdrant.stores.server.retrying import is_local
from twinvec_qdrant.stores.server.values import client_quantization, client_states

_RECONNECTING = {"grpc.max_reconnect_backoff_ms": 1000}
"""Options of gRPC for short pauses between attempts to connect.

By default, these pauses grow to two minutes. In a pause, every request fails, even if the server is back.
"""


class ServerStore(Store):
    """The collection ``name`` of a server, or the whole server for ""; ``close`` closes the client if ``owned``."""

    def __init__(
        self,
        name: str,
        client: QdrantClient,
        location: str,
        *,
        owned: bool,
        wait_seconds: float,
        async_client: AsyncQdrantClient | None,
    ) -> None:
        self._address = location
        self._client = client
        self._server = partial(
            ServerBackend, client, location=location, owned=owned, wait_seconds=wait_seconds, async_client=async_client
        )
        self._backend = self._server(name)
        self.location = self._backend.location
        self._requests = self._backend.requests

    def peek(self) -> dict[str, Any] | None:
        return self._backend.read_metadata() if self._exists() else None

    def neighbours(self) -> str:
        return f"at {self._address}; there are: {', '.join(self._names()) or 'none'}"

    def descriptions(self) -> dict[str, dict[str, Any]]:
        found = {}
        for name in self._names():
            with suppress(CollectionNotFoundError):  # another program has dropped it meanwhile
                found[name] = self._server(name).read_metadata()
        return found

    def open(self) -> ServerBackend:
        return self._backend

    def create(self, new: NewCollection) -> ServerBackend:
        self.check_version()
        self._backend.check_quantization(new.index)
        if new.cluster.given() and is_local(self._client):
            raise ConfigurationError(f"{self.location}: cluster settings need a Qdrant server; leave cluster out")
        cluster.check_tenant_shards(self._requests, new.cluster, new.tenant_path)
        dense = models.VectorParams(
            size=new.dim,
            distance=models.Distance.COSINE,
            quantization_config=client_quantization(new.index),
            on_disk=new.cluster.on_disk,
        )
        states = {} if new.states_dim is None else {states_name(DENSE): client_states(new.states_dim)}
        try:
            self._requests.call(
                self._client.create_collection,
                vectors_config={DENSE: dense, **states},
                sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                metadata={**new.metadata, **cluster.recorded(new.cluster, new.tenant_path)},
                hnsw_config=models.HnswConfigDiff(m=new.index.m, ef_construct=new.index.ef_construct),
                **cluster.creation_options(new.cluster),
            )
        except StoreError:
            if not self._exists():  # another process may have created the collection at the same moment
                raise
        self._backend.index_fields(new.tenant_path)
        return self._backend

    def drop(self) -> None:
        self._requests.call(self._client.delete_collection)

    def close(self) -> None:
        self._backend.close()

    def check_version(self) -> None:
        """Raise ``StoreError`` if the server says that its version is below ``LEAST_VERSION``."""
        self._backend.check_version()

    def _exists(self) -> bool:
        return self._requests.call(self._client.collection_exists)

    def _names(self) -> list[str]:
        return sorted(each.name for each in self._requests.ask(self._client.get_collections).collections)


def connect(
    name: str,
    url: str,
    api_key: str | None,
    wait_seconds: float,
    async_client: AsyncQdrantClient | None = None,
    grpc_port: int | None = None,
) -> ServerStore:
    """Return the collection ``name`` of the server at ``url``, over REST, or over gRPC if ``grpc_port`` is set.

    Raise ``ConfigurationError`` if the url is malformed, or an API key would be sent unencrypted to another machine.
    """
    key = _sendable(api_key)
    if not is_server_address(url):
        raise ConfigurationError(f"url: expected {ADDRESS_FORM}")  # the url is not quoted: it may hold a password
    parts = urlsplit(url)
    if (key or parts.password) and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigurationError(
            f"an API key would go unencrypted to {parts.hostname}; use https, or a tunnel to localhost"
        )
    proxied = not (key and parts.scheme == "http")  # a proxy would read the key
    client = quiet_client(
        QdrantClient,
        url=url,
        api_key=key,
        timeout=60 if grpc_port is None else max(1, math.floor(min(wait_seconds, 60))),
        prefer_grpc=grpc_port is not None,
        grpc_port=grpc_port or 0,
        grpc_options=_RECONNECTING if proxied else {**_RECONNECTING, "grpc.enable_http_proxy": 0},
        check_compatibility=False,
        trust_env=proxied,
        limits=CONNECTIONS,
    )
    return _connected(name, client, wait_seconds, async_client)


def connect_as(async_client: AsyncQdrantClient, name: str, wait_seconds: float) -> ServerStore:
    """Return the collection ``name`` of the server that an async client of the caller is connected to."""
    if is_local(async_client):
        raise ConfigurationError(
            "async_client is in local mode: also give the QdrantClient that holds the data (client=)"
        )
    client = quiet_client(QdrantClient, **{**async_client.init_options, "check_compatibility": False})
    return _connected(name, client, wait_seconds, async_client)


def _connected(
    name: str, client: QdrantClient, wait_seconds: float, async_client: AsyncQdrantClient | None
) -> ServerStore:
    """Return the collection ``name`` of the server that a new ``client`` is connected to."""
    location = str(getattr(client._client, "rest_uri", "")).rstrip("/")  # the client's address contains no password
    return ServerStore(name, client, location, owned=True, wait_seconds=wait_seconds, async_client=async_client)


def _sendable(api_key: str | None) -> str | None:
    """Return the key without surrounding white space, such as the line break at the end of a file."""
    key = api_key.strip() if isinstance(api_key, str) else api_key
    if key and not (isinstance(key, str) and key.isascii() and key.isprintable()):
        raise ConfigurationError("the API key: expected printable ASCII characters, the only ones a header can carry")
    return key or None
