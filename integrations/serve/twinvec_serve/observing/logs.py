"""The log of the process, on standard error: lines for people, or JSON objects for programs, one a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Literal

from twinvec.errors import TwinvecError
from twinvec.escaping import escaped_json

LogFormat = Literal["text", "json"]

REQUEST_ID: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered; each JSON object that is logged meanwhile has it."""

_FIELDS = "fields"
_SERVER, _REQUESTS = "twinvec_serve", "twinvec_serve.observing.requests"

logger = logging.getLogger(__name__)


def with_fields(**values: Any) -> dict[str, Any]:
    """Return the argument ``extra`` of a call of a logger, for values that the JSON object has next to the message."""
    return {_FIELDS: values}


def set_up_log(log_format: LogFormat, *, requests: bool) -> None:
    """Set the form of the log. The server logs its start and its stop, and with ``requests`` also every request.

    The root logger must have its handlers, which decide whether other libraries are logged.
    """
    logging.getLogger(_SERVER).setLevel(logging.INFO)
    logging.getLogger(_REQUESTS).setLevel(logging.INFO if requests else logging.WARNING)
    if log_format == "json":
        root = logging.getLogger()
        root.handlers = [_as_json(each) for each in root.handlers]
    elif requests:
        timed = logging.StreamHandler()
        timed.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logging.getLogger(_REQUESTS).addHandler(timed)
        logging.getLogger(_REQUESTS).propagate = False


@contextmanager
def logged_errors(log_format: LogFormat) -> Iterator[None]:
    """In the block, log an error that ends the process, and exit with 1, if the log has JSON objects."""
    try:
        yield
    except Exception as error:
        if log_format == "text":  # the command prints the error
            raise
        logger.critical("%s", error, exc_info=None if isinstance(error, TwinvecError) else error)
        raise SystemExit(1) from error


def _as_json(handler: logging.Handler) -> logging.Handler:
    """Return a handler for the same records."""
    made = logging.StreamHandler()
    made.setLevel(handler.level)
    made.filters = handler.filters
    made.setFormatter(JsonFormatter())
    return made


class JsonFormatter(logging.Formatter):
    """Formats a record as one line with a JSON object: time, level, logger, message, and fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        values: dict[str, Any] = {
            "time": time.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request_id := REQUEST_ID.get()) is not None:
            values["request_id"] = request_id
        values |= getattr(record, _FIELDS, {})
        if record.exc_info:
            values["traceback"] = self.formatException(record.exc_info)
        return escaped_json(json.dumps(values, ensure_ascii=False, default=str))
