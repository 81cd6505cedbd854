"""The client of a process that serves a store: requests over HTTP, with the standard library only.

The commands use this client. They start fast, because ``http.client`` loads in a tenth of the time of other clients.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from twinvec.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    InputError,
    ModelNotFoundError,
    SpaceMismatchError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
    TwinvecError,
)
from twinvec.support.checks import is_loopback
from twinvec_qdrant.serving.process import ServingProcess

WRITE_VARIABLE, READ_VARIABLE = "TWINVEC_API_KEY", "TWINVEC_READ_API_KEY"
FILE_VARIABLE = "TWINVEC_SERVE_API_KEY_FILE"

_ERRORS: dict[str, type[TwinvecError]] = {
    "collection_not_found": CollectionNotFoundError,
    "invalid_input": InputError,
    "invalid_setting": ConfigurationError,
    "invalid_request": ConfigurationError,
    "model_not_found": ModelNotFoundError,
    "other_model": SpaceMismatchError,
    "store_busy": StoreBusyError,
    "store_corrupt": StoreCorruptError,
    "store_failed": StoreError,
    "store_full": StoreFullError,
    "store_unavailable": StoreUnavailableError,
}
_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 600.0  # longest wait once the process has answered, because a search or an ingest may take long
_PREPARED_SECONDS = 6 * 3600.0
_NEEDS_KEY, _BUSY = (401, 403), 429
_OF_OLDER_VERSION = ("not_found", "method_not_allowed")  # an older version lacks the path, or its method

T = TypeVar("T")

Events = Callable[[str, dict[str, Any]], None]
"""Function that gets each event of an answer: its name and its data."""


class ServerRefusesError(StoreBusyError):
    """The process has the store and refuses connections, perhaps because it is stopping."""

    def __init__(self, process: ServingProcess) -> None:
        super().__init__(
            f"{process} has the store, but does not answer: the connection was refused; if that process is stopping, "
            "run the same command again later, or wait longer with --wait"
        )


class ServerClient:
    """Client of a process that serves a store, over one connection; a context manager.

    A request is repeated for ``wait_seconds`` while the process is too busy.

    Raises:
        StoreBusyError: the process has the store, and does not answer at its address; ServerRefusesError if it
            refuses the connection.
        ConfigurationError: the environment names a file of keys that cannot be read.
    """

    def __init__(self, process: ServingProcess, wait_seconds: float) -> None:
        self._process = process
        self._wait_seconds = wait_seconds
        parts = urlsplit(process.address)
        self._host = parts.hostname or ""
        self._connection = _connected(
            self._host, parts.port, process.tls_context() if parts.scheme == "https" else None
        )
        try:
            found = self._asked("GET", "/healthz", None, {})
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                raise ServerRefusesError(process) from error
            raise StoreBusyError(f"{process} has the store, but does not answer: {error.__cause__}") from error
        except (json.JSONDecodeError, UnicodeDecodeError):
            found = {}
        if not isinstance(found, dict) or found.get("instance") != process.instance:
            raise StoreBusyError(f"{process} has the store, but another process answers at its address")
        self._connection.timeout = _ANSWER_SECONDS
        if self._connection.sock is not None:
            self._connection.sock.settimeout(_ANSWER_SECONDS)
        self._headers = {"Twinvec-Store": process.secret}

    def __enter__(self) -> ServerClient:
        return self

    def __exit__(self, *_: object) -> None:
        sock = self._connection.sock
        if sock is not None:
            with suppress(OSError):  # without a shutdown, ``close`` waits for a thread that still reads an event
                sock.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def get(self, path: str) -> dict[str, Any]:
        """Return the answer to a GET request."""
        return self._again(partial(self._asked, "GET", path, None, self._authorized()))

    def delete(self, path: str) -> dict[str, Any]:
        """Return the answer to a DELETE request."""
        return self._again(partial(self._asked, "DELETE", path, None, self._authorized()))

    def download(self, path: str) -> Content:
        """Return the content of the answer to a GET request, which may be large and may take hours to prepare."""
        if self._connection.sock is not None:
            self._connection.sock.settimeout(_PREPARED_SECONDS)
        return self._again(partial(self._answered, "GET", path, None, self._authorized()))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a POST request with a JSON body."""
        headers = {**self._authorized(), "Content-Type": "application/json"}
        return self._again(partial(self._asked, "POST", path, json.dumps(body).encode(), headers))

    def post_for_events(self, path: str, body: Mapping[str, Any], on_event: Events) -> None:
        """Send a POST request with a JSON body; events come back, and the last event is the answer.

        Raises:
            TwinvecError: the error in the answer.
        """
        content = [json.dumps(body).encode()]
        self._again(partial(self._stream, path, "application/json", content, on_event))

    def stream(self, path: str, lines: Iterable[Mapping[str, Any]], on_event: Events) -> None:
        """Send JSON lines, while events come back; the last event is the answer.

        Raises:
            TwinvecError: the error in the answer.
        """
        parts = (json.dumps(line).encode() + b"\n" for line in lines)
        self._stream(path, "application/x-ndjson; form=read", parts, on_event)

    def upload(self, path: str, archive: Callable[[], Iterable[bytes]], on_event: Events) -> None:
        """Send a POST request with a tar archive; events come back, and the last event is the answer.

        Raises:
            TwinvecError: the error in the answer.
        """
        self._again(lambda: self._stream(path, "application/x-tar", archive(), on_event, blank=b""))

    def _stream(self, path: str, kind: str, parts: Iterable[bytes], on_event: Events, blank: bytes = b"\n") -> None:
        connection = self._connection
        connection.putrequest("POST", path)
        headers = {**self._authorized(), "Content-Type": kind}
        for name, value in {**headers, "Accept": "text/event-stream", "Transfer-Encoding": "chunked"}.items():
            connection.putheader(name, value)
        try:
            connection.endheaders()
            body = _Body(connection, blank)
            listener = _Listener(connection, body, on_event)
            listener.start()
            with suppress(BrokenPipeError, ConnectionResetError):  # the server has answered early; its answer says why
                for part in parts:
                    body.send(part)
                    if not listener.is_alive():
                        break
                body.end()
        except OSError as error:
            raise self._gone(error) from error
        listener.join()
        if listener.failure is not None:
            raise self._gone(listener.failure) from listener.failure
        if listener.refused is not None:
            raise self._refusal(*listener.refused)
        if listener.error is not None:
            raise _told_error(listener.error, StoreError)

    def _again(self, ask: Callable[[], T]) -> T:
        """Call ``ask``; while the process is too busy, call it again after the pause that the process names."""
        end = time.monotonic() + self._wait_seconds
        while True:
            try:
                return ask()
            except _TooBusyError as busy:
                if time.monotonic() + busy.seconds > end:
                    raise StoreBusyError(f"{self._process.address}: {busy}") from None
                time.sleep(busy.seconds)

    def _asked(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._answered(method, path, body, headers).read())
        return found

    def _answered(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Content:
        with self._connection_errors():
            self._connection.request(method, path, body, dict(headers))
            answer = self._connection.getresponse()
        content = Content(answer, self._connection_errors)
        if answer.status >= 400:
            raise self._refusal(answer, content.read())
        return content

    @contextmanager
    def _connection_errors(self) -> Iterator[None]:
        """Raise ``StoreUnavailableError`` if the connection fails, and close it."""
        try:
            yield
        except (OSError, HTTPException) as error:
            self._connection.close()
            raise self._gone(error) from error

    def _gone(self, error: Exception) -> StoreUnavailableError:
        return StoreUnavailableError(f"{self._process}: the connection failed: {error}")

    def _refusal(self, answer: HTTPResponse, content: bytes) -> TwinvecError:
        try:
            fields = json.loads(content)["error"]
            message, code = str(fields["message"]), fields.get("code")
        except (ValueError, KeyError, TypeError):
            message, code = f"{self._process.address} answers with status {answer.status}", None
        if code in _OF_OLDER_VERSION:
            return ConfigurationError(
                f"{self._process} is of an older version of twinvec and cannot do this ({message}): stop that process "
                "and run the same command again"
            )
        if answer.status == _BUSY:
            return _TooBusyError(message, float(answer.headers.get("Retry-After", 1)))
        if answer.status in _NEEDS_KEY:
            return ConfigurationError(
                f"{self._process.address}: {message}; the commands read the key from {WRITE_VARIABLE}, {READ_VARIABLE} "
                f"or the file that {FILE_VARIABLE} names"
            )
        otherwise = StoreError if answer.status >= 500 else ConfigurationError
        return _told_error({"message": message, "code": code}, otherwise)

    def _authorized(self) -> dict[str, str]:
        key = _key()
        if key is None:
            return self._headers
        if self._process.certificate is None and not is_loopback(self._host):
            raise ConfigurationError(
                f"{self._process.address}: the key would go to another host without encryption; use a Python client "
                "over https, or stop that process"
            )
        return {**self._headers, "Authorization": f"Bearer {key}"}


class Content:
    """The content of an answer, read as it arrives.

    ``errors`` makes a context that raises ``StoreUnavailableError`` if the connection fails meanwhile.
    """

    def __init__(self, answer: HTTPResponse, errors: Callable[[], AbstractContextManager[None]]) -> None:
        self._answer = answer
        self._errors = errors

    def read(self, size: int | None = None) -> bytes:
        """Return the next bytes, ``size`` or fewer; default: all."""
        with self._errors():
            return self._answer.read(size)


def _told_error(fields: Mapping[str, Any], otherwise: type[TwinvecError]) -> TwinvecError:
    """Return the error in the fields of an answer or event; ``otherwise`` is its type if the code is unknown."""
    return _ERRORS.get(str(fields.get("code")), otherwise)(str(fields["message"]))


class _TooBusyError(StoreBusyError):
    """The process is too busy; ask again after some seconds."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class _Body:
    """The body of a streamed request; the caller's thread and the thread that reads the answer send its parts.

    ``blank`` is a meaningless part that shows the client's presence; b"" if the body cannot have such a part.
    """

    def __init__(self, connection: HTTPConnection, blank: bytes) -> None:
        self._connection = connection
        self._blank = blank
        self._sending = threading.Lock()
        self._ended = False

    def send(self, part: bytes) -> None:
        """Send a part as one chunk."""
        with self._sending:
            self._connection.send(b"%x\r\n%b\r\n" % (len(part), part))

    def end(self) -> None:
        """Send the empty chunk that ends the body."""
        with self._sending:
            self._ended = True
            self._connection.send(b"0\r\n\r\n")

    def show_presence(self) -> None:
        """Send a blank part, so that the process knows that the client still reads its files.

        If a chunk is being sent, or the body has ended, nothing is sent.
        """
        if not self._blank or not self._sending.acquire(blocking=False):
            return
        try:
            if not self._ended:
                self._connection.send(b"%x\r\n%b\r\n" % (len(self._blank), self._blank))
        finally:
            self._sending.release()


class _Listener(threading.Thread):
    """Reads the events of an answer while the request is still being sent, and answers a ping with a blank line."""

    def __init__(self, connection: HTTPConnection, body: _Body, on_event: Events) -> None:
        super().__init__(name="twinvec-events", daemon=True)
        self.refused: tuple[HTTPResponse, bytes] | None = None  # an answer that is an error, and its content
        self.error: dict[str, Any] | None = None  # the fields of the last event, if it is an error
        self.failure: Exception | None = None  # why the answer could not be read
        self._connection = connection
        self._body = body
        self._on_event = on_event

    def run(self) -> None:
        try:
            answer = self._connection.getresponse()
            if answer.status >= 400:
                self.refused = answer, answer.read()
            else:
                self._read(answer)
        except Exception as error:  # any error: the answer has not been read to its end
            self.failure = error

    def _read(self, answer: HTTPResponse) -> None:
        name, last = "", ""
        while line := answer.readline():
            field, _, value = line.decode().rstrip("\r\n").partition(": ")
            if field == "event":
                name = last = value
            elif field == "data":
                values = json.loads(value)
                self._on_event(name, values)
                self.error = values["error"] if name == "error" else None
            elif value:  # a line without a name is a comment: the server's ping
                self._body.show_presence()
        if last not in ("report", "error"):
            raise ConnectionResetError("the answer ended before its report")


def _connected(host: str, port: int | None, tls: Any) -> HTTPConnection:
    """Connect with a short timeout. ``tls`` is an SSL context; None for plain HTTP."""
    connection = HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
    if tls is not None:
        from http.client import HTTPSConnection

        connection = HTTPSConnection(host, port, timeout=_CONNECT_SECONDS, context=tls)
    try:
        connection.connect()
    except OSError:
        connection.close()  # the first request connects again, and raises the error
    return connection


def _key() -> str | None:
    """Return the key with the most rights; the process refuses requests that the key does not permit."""
    for name in (WRITE_VARIABLE, READ_VARIABLE):
        if key := os.environ.get(name):
            return key
    if not (file := os.environ.get(FILE_VARIABLE)):
        return None
    try:
        lines = [line.split() for line in Path(file).read_text(encoding="utf-8-sig").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigurationError(f"the file that {FILE_VARIABLE} names cannot be read: {reason}") from None
    keys = [words for words in lines if words and not words[0].startswith("#")]
    may_write = [words[-1] for words in keys if words[0] != "read" or len(words) == 1]
    may_read = [words[-1] for words in keys if words[0] == "read" and len(words) > 1]
    found = may_write + may_read
    return found[0] if found else None
