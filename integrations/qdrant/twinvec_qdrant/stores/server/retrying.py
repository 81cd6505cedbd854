"""Retries of failed requests to a server, and the pauses between them."""

from __future__ import annotations

from collections.abc import Callable

import tenacity

from twinvec_qdrant.stores.server.errors import is_temporary, refusal, requested_pause

_GROWING = tenacity.wait_random_exponential(multiplier=0.2, max=10.0)


def retrying(
    wait_seconds: float, announce: Callable[[tenacity.RetryCallState], None], refill_seconds: float = 0.0
) -> tenacity.Retrying:
    """Return a policy that retries temporary failures for ``wait_seconds``; the server may ask for longer pauses.

    After ``refill_seconds``, a rate limit of the server has room for the whole request. A shorter pause may be in vain:
    the first parts of a request use up the budget, and the server refuses a later part. If less time is left, the pause
    is the one that the server names.
    """

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        requested = requested_pause(error)
        if requested > 0 and (answered := refusal(error)) is not None and answered.status == 429:
            full = max(requested, refill_seconds)
            return full if (state.seconds_since_start or 0.0) + full < wait_seconds else requested
        return max(requested, _GROWING(state))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(is_temporary),
        wait=pause,
        stop=tenacity.stop_before_delay(wait_seconds),
        before_sleep=announce,
        reraise=True,
    )
