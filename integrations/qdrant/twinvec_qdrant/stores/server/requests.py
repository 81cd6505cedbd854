"""Requests to a server about one collection: sent, retried while they may succeed, and their errors made ours."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

import tenacity
from qdrant_client import QdrantClient
from qdrant_client.local.qdrant_local import QdrantLocal

from twinvec_qdrant.stores.server.errors import reason, store_error, unsendable
from twinvec_qdrant.stores.server.retrying import retrying

T = TypeVar("T")

logger = logging.getLogger(__name__)

_LOCAL_MODE = threading.RLock()
"""Lock of the client's local mode, which fails if one thread searches while another writes."""


class Requests:
    """Requests about the collection ``name`` through one client; ``location`` names the collection in errors."""

    def __init__(self, client: QdrantClient, name: str, location: str, wait_seconds: float) -> None:
        self.client = client
        self.location = location
        self._name = name
        self._turn = _LOCAL_MODE if is_local(client) else nullcontext()
        self._retry = retrying(wait_seconds, self._announce)

    def call(self, method: Callable[..., T], *args: Any, **options: Any) -> T:
        """Call a client method on the collection, and retry temporary failures.

        Raise ``StoreUnavailableError`` if the server does not answer or stays busy, and ``StoreError`` if it refuses.
        """
        try:
            with self._turn:
                return self._retry.copy()(method, self._name, *args, **options)
        except Exception as error:
            cause = None if unsendable(error) else error  # an unsendable header may be the API key
            raise store_error(error, self.location, method.__name__) from cause

    def _announce(self, state: tenacity.RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome is not None:
            logger.warning("%s: %s; trying again", self.location, reason(state.outcome.exception()))


def is_local(client: QdrantClient) -> bool:
    """Return whether this is the client's local mode, which has neither indexes nor limits."""
    return isinstance(getattr(client, "_client", None), QdrantLocal)
