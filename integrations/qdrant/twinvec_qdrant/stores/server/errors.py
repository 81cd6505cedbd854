"""Errors of the client of a server: what they mean, and the errors of ours that they become."""

from __future__ import annotations

import time
from datetime import UTC
from email.utils import parsedate_to_datetime

import httpx
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from twinvec.errors import StoreError, StoreUnavailableError

BUSY = frozenset({429, 500, 502, 503, 504})
"""Status codes after which the same request may succeed later."""


def store_error(error: Exception, location: str, what: str) -> StoreError:
    """Return the error of ours for one that a request to the server at ``location`` ended with.

    ``what`` names the request. A ``StoreUnavailableError`` may succeed later; any other ``StoreError`` is a refusal.
    """
    if isinstance(error, ResponseHandlingException):
        return StoreUnavailableError(f"{location}: no answer: {reason(error)}")
    if isinstance(error, QdrantException):
        return StoreUnavailableError(f"{location}: too busy: {reason(error)}{pause_hint(error)}")
    if isinstance(error, UnexpectedResponse):
        kind = StoreUnavailableError if error.status_code in BUSY else StoreError
        return kind(f"{location}: refused: {error}{pause_hint(error)}")
    return StoreError(f"{location}: {what} failed: {error}")  # the client's local mode raises exceptions of many kinds


def is_temporary(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, httpx.TransportError) and not unsendable(error)
    return isinstance(error, QdrantException) or (  # the client raises its own exceptions for 429 only
        isinstance(error, UnexpectedResponse) and error.status_code in BUSY
    )


def requested_pause(error: BaseException | None) -> float:
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
    seconds = requested_pause(error)
    return f"; it asks for a pause of {seconds:,.0f} s: wait longer (wait_seconds, --wait)" if seconds > 0 else ""


def reason(error: BaseException | None) -> str:
    """Describe the failure in a few words that never contain a key."""
    source = getattr(error, "source", error)
    if unsendable(error):
        return "LocalProtocolError: the request holds a header that cannot be sent; look at the client's key"
    return f"{type(source).__name__}: {source}"
