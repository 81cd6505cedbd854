"""Which failed requests to a server are repeated, after which pauses, and how errors describe the failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC
from email.utils import parsedate_to_datetime

import httpx
import tenacity
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

BUSY = frozenset({429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed later."""

_GROWING = tenacity.wait_random_exponential(multiplier=0.2, max=10.0)


def retrying(wait_seconds: float, announce: Callable[[tenacity.RetryCallState], None]) -> tenacity.Retrying:
    """Return a policy that retries temporary failures for ``wait_seconds``; the server may ask for longer pauses."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(_is_temporary),
        wait=_pause,
        stop=tenacity.stop_before_delay(wait_seconds),
        before_sleep=announce,
        reraise=True,
    )


def _is_temporary(error: BaseException) -> bool:
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, httpx.TransportError) and not unsendable(error)
    return isinstance(error, QdrantException) or (  # the client raises its own exceptions for 429 only
        isinstance(error, UnexpectedResponse) and error.status_code in BUSY
    )


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return max(_requested_pause(error), _GROWING(state))


def _requested_pause(error: BaseException | None) -> float:
    """Return the seconds of the Retry-After header, a number or a date (RFC 9110, 10.2.3); 0 or less for no pause."""
    header = _retry_after(error)
    if header.isdecimal():
        return float(header)
    try:
        then = parsedate_to_datetime(header)
        return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0


def _retry_after(error: BaseException | None) -> str:
    if isinstance(error, ResourceExhaustedResponse):
        return str(error.retry_after_s)
    if isinstance(error, QdrantException):  # the client cannot parse a date, and quotes the header in its message
        return str(error).partition(": ")[2]
    return error.headers.get("retry-after", "") if isinstance(error, UnexpectedResponse) else ""


def unsendable(error: BaseException | None) -> bool:
    """Return whether a header holds characters that HTTP forbids; the error then quotes that header."""
    return isinstance(getattr(error, "source", error), httpx.LocalProtocolError)


def pause_hint(error: BaseException) -> str:
    """Return an error suffix that names the server's Retry-After pause, or an empty string."""
    seconds = _requested_pause(error)
    return f"; it asks for a pause of {seconds:,.0f} s: wait longer (wait_seconds, --wait)" if seconds > 0 else ""


def reason(error: BaseException | None) -> str:
    """Describe the failure in a few words that never contain a key."""
    source = getattr(error, "source", error)
    if unsendable(error):
        return "LocalProtocolError: the request holds a header that cannot be sent; look at the client's key"
    return f"{type(source).__name__}: {source}"
