"""After which pauses failed requests to a server are repeated."""

from __future__ import annotations

from collections.abc import Callable

import tenacity

from twinvec_qdrant.stores.server.errors import is_temporary, requested_pause

_GROWING = tenacity.wait_random_exponential(multiplier=0.2, max=10.0)


def retrying(wait_seconds: float, announce: Callable[[tenacity.RetryCallState], None]) -> tenacity.Retrying:
    """Return a policy that retries temporary failures for ``wait_seconds``; the server may ask for longer pauses."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_temporary),
        wait=_pause,
        stop=tenacity.stop_before_delay(wait_seconds),
        before_sleep=announce,
        reraise=True,
    )


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    return max(requested_pause(error), _GROWING(state))
