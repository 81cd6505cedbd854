"""A collection on a Qdrant server or cluster, or in any ``QdrantClient`` of the caller.

``retrying`` sends and retries requests and raises twinvec's errors, and ``limits`` fits requests to the server's
limits. The methods of the backend are in ``structure``, ``writing``, ``reading`` and ``search_batch``. The description
is in Qdrant's collection metadata (server 1.16 and later).
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, TypeVar

from qdrant_client import AsyncQdrantClient, QdrantClient

from twinvec_qdrant.stores.server.async_requests import AwaitedRequests
from twinvec_qdrant.stores.server.retrying import Requests
from twinvec_qdrant.stores.server.search_batch import Searching
from twinvec_qdrant.stores.server.writing import Writing
from twinvec_qdrant.stores.steps import Steps, run_awaiting

T = TypeVar("T")


class ServerBackend(Searching, Writing):
    """One collection of a server; ``ServerStore`` makes it."""

    exclusive = False

    def __init__(
        self,
        client: QdrantClient,
        name: str,
        location: str,
        *,
        owned: bool,
        wait_seconds: float,
        async_client: AsyncQdrantClient | None,
    ) -> None:
        full = f"{location}, collection {name!r}" if name else location
        super().__init__(Requests(client, name, full, wait_seconds))
        self.place: Hashable = (location if owned else id(client), name)
        self.writing = threading.RLock()
        self._owned = owned
        self._awaited: AwaitedRequests | None = None
        if async_client is not None or (owned and not self._local):
            self._awaited = AwaitedRequests(async_client or client.init_options, self.requests)
        self.can_await = self._awaited is not None

    def described(self) -> Steps[dict[str, Any]]:
        return dict((yield from self._asked_again()).config.metadata or {})

    async def run_awaiting(self, steps: Steps[T]) -> T:
        return self.run(steps) if self._awaited is None else await run_awaiting(steps, self._awaited.perform)

    def close(self) -> None:
        """Close the connections, except those of the caller's clients."""
        self.requests.end()
        if self._awaited is not None:
            self._awaited.close()
        if self._owned:
            self._client.close()
