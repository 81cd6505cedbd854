"""Which failed requests to a server are repeated, when, and what is said of them."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import tenacity
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

BUSY = frozenset({429, 500, 502, 503, 504})
"""Answers after which the same request may succeed."""

_GROWING = tenacity.wait_random_exponential(multiplier=0.2, max=10.0)


def retrying(wait_seconds: float, announce: Callable[[tenacity.RetryCallState], None]) -> tenacity.Retrying:
    """Repeats what may pass, with growing and jittered pauses or those that the server names, for ``wait_seconds``."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_may_pass),
        wait=_pause,
        stop=tenacity.stop_before_delay(wait_seconds),
        before_sleep=announce,
        reraise=True,
    )


def _may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, httpx.TransportError)
    return isinstance(error, ResourceExhaustedResponse) or (
        isinstance(error, UnexpectedResponse) and error.status_code in BUSY
    )


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next attempt: as many as the server names, or growing ones with jitter."""
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, ResourceExhaustedResponse):
        return float(error.retry_after_s)
    named = error.headers.get("retry-after", "") if isinstance(error, UnexpectedResponse) else ""
    return float(named) if named.isdecimal() else _GROWING(state)


def reason(error: BaseException | None) -> str:
    """What went wrong, in a few words."""
    source = getattr(error, "source", error)
    return f"{type(source).__name__}: {source}"
