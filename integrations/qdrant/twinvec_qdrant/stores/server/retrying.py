"""Which failed requests to a server are repeated, when, and what is said of them."""

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
        return isinstance(error.source, httpx.TransportError) and not unsendable(error)
    return isinstance(error, QdrantException) or (  # the client's own exceptions all stand for 429
        isinstance(error, UnexpectedResponse) and error.status_code in BUSY
    )


def _pause(state: tenacity.RetryCallState) -> float:
    """Seconds until the next attempt: growing ones with jitter, or what the server names where that is longer."""
    error = state.outcome.exception() if state.outcome is not None else None
    return max(_named(error), _GROWING(state))


def _named(error: BaseException | None) -> float:
    """The pause that the server names, in seconds; 0 or less where it names none or one that is over."""
    return _seconds(_retry_after(error))


def _retry_after(error: BaseException | None) -> str:
    """The header that came with an answer; empty without one."""
    if isinstance(error, ResourceExhaustedResponse):
        return str(error.retry_after_s)
    if isinstance(error, QdrantException):  # the client reads no dates, but says what it could not read
        return str(error).partition(": ")[2]
    return error.headers.get("retry-after", "") if isinstance(error, UnexpectedResponse) else ""


def _seconds(retry_after: str) -> float:
    """What the header says (RFC 9110, 10.2.3: a number of seconds, or a date); 0 where it says nothing."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
        return (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp() - time.time()
    except (ValueError, OverflowError):
        return 0.0


def unsendable(error: BaseException | None) -> bool:
    """Whether the request itself is at fault: a header that HTTP does not have, which the error quotes."""
    return isinstance(getattr(error, "source", error), httpx.LocalProtocolError)


def beyond(error: BaseException) -> str:
    """What to add about an answer that was not waited for any longer, since it names a pause; mostly nothing."""
    seconds = _named(error)
    return f"; it asks for a pause of {seconds:,.0f} s: wait longer (wait_seconds, --wait)" if seconds > 0 else ""


def reason(error: BaseException | None) -> str:
    """What went wrong, in a few words, none of which are a key."""
    source = getattr(error, "source", error)
    if unsendable(error):
        return "LocalProtocolError: the request holds a header that cannot be sent; look at the client's key"
    return f"{type(source).__name__}: {source}"
