"""Requests to a server about one collection, with retries of temporary failures and with twinvec's errors.

``wait_seconds`` is the longest time without an answer: all tries of a request and the pauses between them end within
this time. One try of a read may take half of the time, which leaves room for a second try; one try of a write may take
all of it. A refusal that names a pause is an answer: the try after the pause may take as long as the first try.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import tenacity
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.local.async_qdrant_local import AsyncQdrantLocal
from qdrant_client.local.qdrant_local import QdrantLocal

from twinvec.errors import StoreError, TwinvecError
from twinvec.interrupts import raise_of_handler
from twinvec_qdrant.stores.base import closed_error
from twinvec_qdrant.stores.server.clients import observe, options_for, time_limit
from twinvec_qdrant.stores.server.errors import (
    NotYetAppliedError,
    is_temporary,
    reason,
    refusal,
    requested_pause,
    store_error,
    unsendable,
)

T = TypeVar("T")

logger = logging.getLogger(__name__)

_LOCAL_MODE = threading.RLock()
"""Lock of the client's local mode, which fails if one thread searches while another writes."""

_READS = frozenset(
    {"collection_exists", "count", "get_aliases", "get_collection", "get_collections", "info", "query_batch_points"}
    | {"query_points", "retrieve", "scroll"}
)
_READ_SECONDS = 20.0
_WRITE_SECONDS = 60.0
_LEAST_SECONDS = 1.0
_GROWING = tenacity.wait_random_exponential(multiplier=0.2, max=10.0)  # pauses between tries


class Requests:
    """Requests about the collection ``name`` through one client; ``location`` names the collection in errors.

    ``most_timeout`` is the longest timeout, in seconds, that the server permits a request to name.
    """

    def __init__(self, client: QdrantClient, name: str, location: str, wait_seconds: float) -> None:
        self.client = client
        self.name = name
        self.location = location
        self.wait_seconds = wait_seconds
        self.most_timeout: int | None = None
        self._slowed = False
        self._closed = False
        self._turn = _LOCAL_MODE if is_local(client) else nullcontext()
        observe(client)

    def call(self, method: Callable[..., T], *args: Any, refill_seconds: float = 0.0, **options: Any) -> T:
        """Call a client method on the collection, and retry temporary failures.

        ``refill_seconds`` is the time in which a rate limit of the server makes room for the request.

        Raise ``StoreUnavailableError`` if the server does not answer or stays busy, and ``StoreError`` if it refuses.
        """
        return self._sent(method, (self.name, *args), options, refill_seconds)

    def ask(self, method: Callable[..., T]) -> T:
        """Call a client method that is not about a collection; errors are those of ``call``."""
        return self._sent(method, (), {}, 0.0)

    def end(self) -> None:
        """End the requests: from now on, a new request, and a new try of a running request, raise ``StoreError``."""
        self._closed = True

    def check_open(self) -> None:
        """Raise ``StoreError`` after ``end``."""
        if self._closed:
            raise closed_error(self.location)

    def check_version(self, least: tuple[int, int], what: str) -> None:
        """Raise ``StoreError`` if the server says that its version is below ``least``, which ``what`` needs."""
        if is_local(self.client):
            return
        try:
            with self._turn, time_limit(longest_try("info", self.wait_seconds)):
                major, minor = map(int, self.client.info().version.split(".")[:2])
        except Exception as error:
            raise_of_handler(error)
            logger.debug("%s: the server does not say its version: %s", self.location, reason(error))
            return
        if (major, minor) < least:
            raise StoreError(
                f"{self.location}: the server has version {major}.{minor}, and {what} needs {least[0]}.{least[1]} or "
                "later: update the server"
            )

    def _sent(
        self, method: Callable[..., T], args: tuple[Any, ...], options: dict[str, Any], refill_seconds: float
    ) -> T:
        tries = Tries(self, method.__name__, refill_seconds)

        def attempt() -> T:
            self.check_open()
            seconds = tries.next_seconds()
            with time_limit(seconds):
                return applied(method(*args, **options, **options_for(self.client, method, seconds, self.most_timeout)))

        with self.errors(method.__name__), self._turn:
            return tenacity.Retrying(**tries.policy())(attempt)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Raise an error of the request ``what`` as twinvec's error; see ``errors.store_error``.

        The client's error becomes the cause, except an ``unsendable`` one: it quotes a header, perhaps the API key.
        """
        try:
            yield
        except TwinvecError:
            raise
        except Exception as error:
            raise_of_handler(error)
            raise store_error(error, self.location, what) from None if unsendable(error) else error

    def announce(self, state: tenacity.RetryCallState) -> None:
        """Log the first retry of a request; of the retries due to a rate limit, log only the collection's first."""
        error = _error_of(state)
        if state.attempt_number > 1 or error is None:
            return
        if (answered := refusal(error)) is not None and answered.status == 429:
            if not self._slowed:
                logger.warning(
                    "%s: the server limits the pace of requests, and twinvec keeps to that pace", self.location
                )
            self._slowed = True
        else:
            logger.warning("%s: %s; trying again", self.location, reason(error))


class Tries:
    """The tries of one request: how long each may take, and when the next one begins."""

    def __init__(self, requests: Requests, method: str, refill_seconds: float) -> None:
        self._requests = requests
        self._wait_seconds = requests.wait_seconds
        self._longest_silence = max(requests.wait_seconds, _LEAST_SECONDS)
        self._method = method
        self._refill_seconds = refill_seconds
        self._end = time.monotonic() + self._longest_silence

    def next_seconds(self) -> float:
        """Return how many seconds the next try may take."""
        return min(longest_try(self._method, self._wait_seconds), max(self._end - time.monotonic(), 0.001))

    def policy(self) -> dict[str, Any]:
        """Return the arguments with which tenacity retries temporary failures for ``wait_seconds``."""
        return {
            "retry": tenacity.retry_if_exception(is_temporary),
            "wait": self._pause,
            "stop": tenacity.stop_before_delay(self._wait_seconds),
            "before_sleep": self._before_pause,
            "reraise": True,
        }

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Return the seconds before the next try, at least as many as the server asks for.

        Under a rate limit, the pause lasts until the limit has room for the whole request (``refill_seconds``). After a
        shorter pause, the first parts of the request may use up the budget, so that the server refuses a later part. If
        too little time is left, the pause is the one that the server names.
        """
        error = _error_of(state)
        requested = requested_pause(error)
        if requested > 0 and (answered := refusal(error)) is not None and answered.status == 429:
            full = max(requested, self._refill_seconds)
            return full if (state.seconds_since_start or 0.0) + full < self._wait_seconds else requested
        return max(requested, self._growing(state))

    def _growing(self, state: tenacity.RetryCallState) -> float:
        """Return a random pause, or a shorter one if the random one would leave no time for a last try."""
        pause, left = _GROWING(state), self._wait_seconds - (state.seconds_since_start or 0.0)
        return pause if pause < left or left <= _LEAST_SECONDS else left - _LEAST_SECONDS

    def _before_pause(self, state: tenacity.RetryCallState) -> None:
        self._requests.announce(state)
        if requested_pause(_error_of(state)) > 0:
            self._end = time.monotonic() + state.upcoming_sleep + self._longest_silence


def _error_of(state: tenacity.RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome is not None else None


def longest_try(method: str, wait_seconds: float) -> float:
    """Return the seconds that one try of a client method may take."""
    if method in _READS:
        return max(min(_READ_SECONDS, wait_seconds / 2), _LEAST_SECONDS)
    return max(min(_WRITE_SECONDS, wait_seconds), _LEAST_SECONDS)


def applied(answer: T) -> T:
    """Return the answer, or raise ``NotYetAppliedError`` if it says that the server has not yet applied a write."""
    answers = answer if isinstance(answer, list) else [answer]
    for each in answers:
        if isinstance(each, models.UpdateResult) and each.status is models.UpdateStatus.WAIT_TIMEOUT:
            raise NotYetAppliedError("the server has accepted the write, but has not applied it in time")
    return answer


def is_local(client: QdrantClient | AsyncQdrantClient) -> bool:
    """Return whether the client is in local mode, which has no indexes, no limits and no event loop."""
    return isinstance(getattr(client, "_client", None), QdrantLocal | AsyncQdrantLocal)
