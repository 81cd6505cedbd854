"""The place of a collection on a server: its address, the key that opens it, and what else is there."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from qdrant_client import QdrantClient

from twinvec.errors import ConfigurationError
from twinvec_qdrant.stores.base import NewCollection
from twinvec_qdrant.stores.server.backend import ServerBackend

_URL = "url: expected http://host:port or https://host:port"  # without what was given: it may hold a password


class ServerStore:
    """The collection ``name`` of a server; ``owned`` is a client that nobody else closes."""

    def __init__(self, name: str, client: QdrantClient, location: str, *, owned: bool, wait_seconds: float) -> None:
        self._address = location
        self._backend = ServerBackend(client, name, location, owned=owned, wait_seconds=wait_seconds)
        self.location = self._backend.location

    def peek(self) -> dict[str, Any] | None:
        """The collection's description, empty where twinvec did not make it; None where there is no collection.

        Raises:
            StoreUnavailableError: the server does not answer.
        """
        return self._backend.read_metadata() if self._backend.exists() else None

    def neighbours(self) -> str:
        """Where the collection would be and what else is there, for the message that there is no such collection."""
        return f"at {self._address}; there are: {', '.join(self._backend.siblings()) or 'none'}"

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """The description of every collection of the server, by name; empty where twinvec did not make it."""
        return self._backend.descriptions()

    def drop(self) -> None:
        """Remove the collection with all it holds; nothing happens where there is none."""
        self._backend.drop()

    def open(self) -> ServerBackend:
        """The collection that is there."""
        return self._backend

    def create(self, new: NewCollection) -> ServerBackend:
        """Make the collection, unless another process makes it at the same moment."""
        self._backend.create(new)
        return self._backend

    def close(self) -> None:
        """Close the connection, unless the caller gave the client."""
        self._backend.close()


def connect(name: str, url: str, api_key: str | None, wait_seconds: float) -> ServerStore:
    """The collection ``name`` of the server at ``url``.

    Raises:
        ConfigurationError: the url is malformed, or would carry the key unencrypted to another host; or the key is
            none that a header can carry.
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
    """The key without the blanks and line breaks around it, of which files and secrets often have one at their end."""
    key = api_key.strip() if isinstance(api_key, str) else api_key
    if key and not (isinstance(key, str) and key.isascii() and key.isprintable()):
        raise ConfigurationError("the API key: expected printable ASCII characters, which is all that a header carries")
    return key or None


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
