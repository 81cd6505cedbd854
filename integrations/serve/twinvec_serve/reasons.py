"""Log lines for answers with a status of 500 or more: each reason at most once a minute.

The message of a store's error may quote a text of a user, so the log leaves the message out.
"""

from __future__ import annotations

import logging
import re
import time

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 60.0
_MOST = 1000
_EXPECTED = "starting"
_MAY_QUOTE = "store_failed"
_NUMBER = re.compile(r"\d+")

_logged: dict[str, float] = {}


def log_reason(status: int, code: str | None, message: str) -> None:
    """Log why an answer has a status of 500 or more, unless the reason was logged within the last minute.

    Reasons that differ only in numbers count as the same. Answers of a server that is still starting are not logged.
    """
    if code == _EXPECTED:
        return
    reason = "the store failed; the answer to the client says why" if code == _MAY_QUOTE else message
    key, now = f"{code} {_NUMBER.sub('', reason)}", time.monotonic()
    if now - _logged.get(key, -_EVERY_SECONDS) < _EVERY_SECONDS:
        return
    if len(_logged) >= _MOST:
        _logged.clear()
    _logged[key] = now
    logger.warning("requests are answered with %d (%s): %s", status, code, reason)
