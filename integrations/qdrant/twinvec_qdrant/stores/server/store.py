"""The place of a collection on a server: its address, the key that opens it, and the collections next to it."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from qdrant_client import QdrantClient

from twinvec.errors import ConfigurationError
from twinvec_qdrant.stores.base import NewCollection, Store
from twinvec_qdrant.stores.server.backend import ServerBackend

_URL = "url: expected http://host:port or https://host:port"  # does not quote the url: it may hold a password


class ServerStore(Store):
    """The collection ``name`` of a server; ``owned`` if no one else closes the client."""

    def __init__(self, name: str, client: QdrantClient, location: str, *, owned: bool, wait_seconds: float) -> None:
        self._address = location
        self._backend = ServerBackend(client, name, location, owned=owned, wait_seconds=wait_seconds)
        self.location = self._backend.location

    def peek(self) -> dict[str, Any] | None:
        return self._backend.read_metadata() if self._backend.exists() else None

    def neighbours(self) -> str:
        return f"at {self._address}; there are: {', '.join(self._backend.siblings()) or 'none'}"

    def descriptions(self) -> dict[str, dict[str, Any]]:
        return self._backend.descriptions()

    def open(self) -> ServerBackend:
        return self._backend

    def create(self, new: NewCollection) -> ServerBackend:
        self._backend.create(new)
        return self._backend

    def drop(self) -> None:
        self._backend.drop()

    def close(self) -> None:
        self._backend.close()


def connect(name: str, url: str, api_key: str | None, wait_seconds: float) -> ServerStore:
    """Return the collection ``name`` of the server at ``url``.

    Raises:
        ConfigurationError: the url is malformed, a header cannot carry the key, or the key would go unencrypted to
            another host.
    """
    key = _sendable(api_key)
    try:
        parts = urlsplit(url)
        port = parts.port
    except (ValueError, AttributeError):
        raise ConfigurationError(_URL) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(_URL)
    if (key or parts.password) and parts.scheme == "http" and not _is_local(parts.hostname):
        raise ConfigurationError(
            f"an API key would go unencrypted to {parts.hostname}; use https, or a tunnel to localhost"
        )
    location = f"{parts.scheme}://{parts.hostname}" + (f":{port}" if port else "")
    proxied = not (key and parts.scheme == "http")  # a proxy would read the key
    client = QdrantClient(url=url, api_key=key, timeout=60, check_compatibility=False, trust_env=proxied)
    return ServerStore(name, client, location, owned=True, wait_seconds=wait_seconds)


def _sendable(api_key: str | None) -> str | None:
    """Return the key without surrounding white space, such as the line break at the end of a file."""
    key = api_key.strip() if isinstance(api_key, str) else api_key
    if key and not (isinstance(key, str) and key.isascii() and key.isprintable()):
        raise ConfigurationError("the API key: expected printable ASCII characters, the only ones a header can carry")
    return key or None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
