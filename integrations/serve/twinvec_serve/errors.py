"""Answers to requests that failed: each error has a status, and all answers have one form.

The form is OpenAI's, ``{"error": {"message", "type", "param", "code"}}``. The message of a twinvec error is sent to the
client. An unexpected error is logged with its traceback and answered without its message.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from twinvec.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    InputError,
    MissingExtraError,
    ModelIntegrityError,
    ModelNotFoundError,
    SpaceMismatchError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLimitError,
    StoreUnavailableError,
    TwinvecError,
    UnsupportedModelError,
)
from twinvec.support.checks import field_fault
from twinvec_serve.own_commands import is_own_command
from twinvec_serve.reasons import log_reason

logger = logging.getLogger(__name__)


class RequestError(Exception):
    """The request is not valid, or the server cannot answer it now.

    Args:
        message: What was wrong, and what to do.
        param: Name of the parameter that is wrong.
        code: Code of the error for programs, such as "unknown_model".
        status: HTTP status of the answer.
        headers: Headers of the answer.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: int = 400,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
        self.headers = dict(headers or {})


class Overloaded(RequestError):  # noqa: N818 - the state of the server, not a fault
    """The queue is full: 429; ``retry_after`` is a number of seconds."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = retry_after
        seconds = max(math.ceil(retry_after), 1)
        super().__init__(
            f"the server's queue is full; try again in {seconds} s",
            code="overloaded",
            status=429,
            headers={"Retry-After": str(seconds)},
        )


class TooManyMigrations(RequestError):  # noqa: N818 - the state of the server, not a fault
    """Too many collections are being migrated or tuned: 429; the message lists their names."""

    def __init__(self, names: Sequence[str], retry_after: float) -> None:
        super().__init__(
            f"at most {len(names)} collections are migrated or tuned at a time, and {' and '.join(map(repr, names))} "
            "are under way; try again when one of them is done",
            code="too_many_migrations",
            status=429,
            headers={"Retry-After": str(math.ceil(retry_after))},
        )


class ServerStopsError(RequestError):
    """The server stops before the request is done: 503."""

    def __init__(self) -> None:
        super().__init__(
            "the server stopped before the request was done; committed documents stay; once the server is back, send "
            "the same request again for the rest",
            code="server_stopped",
            status=503,
            headers={"Retry-After": "10"},
        )


class ClientGoneError(RequestError):
    """The client closed the connection before it was answered; nobody reads this answer."""

    def __init__(self) -> None:
        super().__init__("the client went away", code="client_gone", status=499)


class UnknownModel(RequestError):  # noqa: N818 - what was asked for
    """No model or reranker has the name: 404. The message lists the names; ``kind`` is "model" or "reranker"."""

    def __init__(self, name: str, names: Sequence[str], *, kind: str = "model", param: str = "model") -> None:
        super().__init__(
            f"unknown {kind} {name!r}; this server has {', '.join(names) or 'none'}",
            param=param,
            code="model_not_found",
            status=404,
        )


_KNOWN = {
    InputError: (400, "invalid_input"),
    ConfigurationError: (400, "invalid_setting"),
    CollectionNotFoundError: (404, "collection_not_found"),
    SpaceMismatchError: (409, "other_model"),
    MissingExtraError: (501, "not_installed"),
    StoreBusyError: (503, "store_busy"),
    StoreUnavailableError: (503, "store_unavailable"),
    StoreFullError: (507, "store_full"),
    StoreLimitError: (400, "invalid_input"),  # as for a malformed filter
    StoreCorruptError: (502, "store_corrupt"),
    StoreError: (502, "store_failed"),  # classes come after their subclasses, because the first match counts
}
"""Status and code of errors whose message is for the client.

Other errors concern the server's own files and models; the log has their messages, or their tracebacks.
"""

_MODEL_ERRORS = (ModelNotFoundError, ModelIntegrityError, UnsupportedModelError)
"""Errors about a model of the server. Their messages have no text of a request, so the log may have them."""

_CODES = {
    HTTPStatus.BAD_REQUEST: "invalid_request",
    HTTPStatus.REQUEST_TIMEOUT: "client_silent",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "body_too_large",
}

_LOG_MESSAGE = "log_message"
"""Attribute of an error with its message for the log, if the client gets another message."""

UNREADABLE = "There was an error parsing the body"
"""FastAPI's message for a body that Python's parser cannot read; ``_MESSAGES`` has a clearer one."""

_MESSAGES = {
    UNREADABLE: "the body cannot be read as JSON: it is not UTF-8, or nested too deeply, or has a number of too many "
    "digits",
    HTTPStatus.NOT_FOUND.phrase: "there is no such path; /docs lists the paths of this server",
    HTTPStatus.METHOD_NOT_ALLOWED.phrase: "the path does not support this method; /docs lists the methods of each path",
}
"""Message of the framework -> message of the answer."""

_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


class ErrorFields(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(extra="forbid")

    message: str = Field(description="What was wrong, what was expected, and what to do.")
    type: str = Field(description="The kind of error, such as invalid_request_error or rate_limit_error.")
    param: str | None = Field(description="The parameter that is wrong, if it is a single one.")
    code: str | None = Field(description="Code of the error for programs, such as model_not_found.")


class ErrorAnswer(BaseModel):
    """The answer to a request that failed."""

    model_config = ConfigDict(extra="forbid")

    error: ErrorFields = Field(description="What went wrong.")


def error_answer(error: Exception) -> Response:
    """Return the answer to a request that raised an error; see ``error_for_client``."""
    known = error_for_client(error)
    kind = _TYPES.get(known.status, "invalid_request_error" if known.status < 500 else "server_error")
    body = {"error": {"message": known.message, "type": kind, "param": known.param, "code": known.code}}
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    content = text.encode(errors="backslashreplace")  # as JSON escapes lone surrogates
    return Response(content, status_code=known.status, headers=known.headers, media_type="application/json")


def error_for_client(error: Exception) -> RequestError:
    """Return the error to send to the client. An unexpected error is logged, and has the status 500.

    For other errors with a status of 500 or more, each reason is logged at most once a minute.
    """
    known = as_request_error(error)
    if known is None:
        logger.error("a request failed: %s", type(error).__name__, exc_info=_without_message(error))
        return RequestError(
            "the server failed; its log says why", code="internal_error", status=HTTPStatus.INTERNAL_SERVER_ERROR
        )
    whole = getattr(error, _LOG_MESSAGE, known.message)
    if known.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        log_reason(known.status, known.code, whole)
    if is_own_command():
        known.message = whole
    return known


def as_request_error(error: Exception) -> RequestError | None:
    """Return the error to send to the client, or None if the error must stay inside the server."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return _http_error(error)
    if isinstance(error, ClientDisconnect):
        return ClientGoneError()
    if isinstance(error, _MODEL_ERRORS):
        with_log_message(error, str(error))
        return RequestError("a model cannot be loaded; the server's log says why", code="model_failed", status=500)
    for kind, (status, code) in _KNOWN.items():
        if isinstance(error, kind):
            headers = {"Retry-After": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
            return RequestError(str(error), code=code, status=status, headers=headers)
    return None


def with_log_message(error: Exception, message: str) -> None:
    """Give an error a message for the log, while the client gets the error's own message."""
    setattr(error, _LOG_MESSAGE, message)


def add_error_answers(app: FastAPI) -> None:
    """Let the app answer errors in the form of OpenAI: ``{"error": {"message", "type", "param", "code"}}``."""
    for kind in (RequestError, RequestValidationError, HTTPException, TwinvecError, Exception):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        error.headers = {"Allow": ", ".join(_methods_at(request))}
    return error_answer(error)


def _methods_at(request: Request) -> list[str]:
    """Return the methods of all routes of a path; the framework's error has those of the first route only."""
    return [
        method
        for method in ("DELETE", "GET", "POST")
        if any(each.matches({**request.scope, "method": method})[0] is Match.FULL for each in request.app.routes)
    ]


def faults_of(errors: Sequence[Mapping[str, Any]], body: Any = None) -> str:
    """Return which parameters are invalid and why, from the errors of pydantic, without the parameters' values.

    ``body`` is the text of a body that is not JSON.
    """
    faults = [_fault(each, body) for each in errors]
    return "; ".join(f"{place}: {text}" if place else text for place, text in faults)


def _invalid(error: RequestValidationError) -> RequestError:
    found = error.errors()
    param = _fault(found[0], error.body)[0] or None if len(found) == 1 else None
    return RequestError(faults_of(found, error.body), param=param, code="invalid_request")


def _fault(error: Mapping[str, Any], body: Any) -> tuple[str, str]:
    """Return the invalid parameter ("" if the body is not a JSON object), and what is wrong with it."""
    if error["type"] == "json_invalid":
        return "", f"the body is not JSON: {json.JSONDecodeError(error['ctx']['error'], body, error['loc'][1])}"
    if tuple(error["loc"]) == ("body",):
        if error["input"] in (None, b""):
            return "", "the body is empty or null; send a JSON object"
        if isinstance(error["input"], bytes):  # still bytes: the body was not read as JSON
            return "", "the body was not read, because the request lacks the header Content-Type: application/json"
        return "", "the body is not a JSON object; send a JSON object"
    return _place(error["loc"]), field_fault(error)


def _place(location: Sequence[int | str]) -> str:
    """Return the path of an invalid parameter; a first part such as "body" or "query" stays only if it is alone."""
    parts = location[1:] if len(location) > 1 and location[0] in ("body", "query", "path", "header") else location
    return ".".join(map(str, parts))


def _http_error(error: HTTPException) -> RequestError:
    status = HTTPStatus(error.status_code)
    code = _CODES.get(status) or status.phrase.lower().replace(" ", "_").replace("-", "_")
    message = _MESSAGES.get(str(error.detail), str(error.detail))
    return RequestError(message, code=code, status=error.status_code, headers=error.headers)


def _without_message(error: Exception) -> Any:
    """Return the traceback of an error for the log, without the message, which may quote a text."""
    bare = Exception("(its message is left out: it may quote a text)")
    return type(bare), bare, error.__traceback__
