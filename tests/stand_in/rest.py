"""The stand-in's HTTP interface, and the faults that its requests meet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from random import Random
from typing import Any, Self
from urllib.parse import parse_qsl

from pydantic_core import from_json

from http_servers import serving


class Fault(Enum):
    """What happens to a request.

    REFUSED: the connection is closed and nothing done. DROPPED: it is done, and the connection closed before the
    answer. STALLED: it is done, and no answer comes. BUSY: 503. LIMITED: 429 with Retry-After. UNKNOWN: 404, as of a
    server that does not know the request. REPLICA: 500, as of a cluster whose copy of a shard is away.
    """

    REFUSED = "refused"
    DROPPED = "dropped"
    STALLED = "stalled"
    BUSY = "busy"
    LIMITED = "limited"
    UNKNOWN = "unknown"
    REPLICA = "replica"


def drawn_faults(kinds: Sequence[Fault], rng: Random) -> Iterator[Fault]:
    """Return an endless iterator over faults: every kind once, in a random order, and then kinds at random."""
    return chain(rng.sample(kinds, len(kinds)), iter(lambda: rng.choice(kinds), None))


_STATUS = {Fault.BUSY: 503, Fault.LIMITED: 429, Fault.UNKNOWN: 404, Fault.REPLICA: 500}
_REPLICA_AWAY = b'{"status": {"error": "Service internal error: Some replica of shard 0 failed to apply operation"}}'


class Front:
    """An HTTP server for tests. Each request may meet a fault; ``respond`` gives the answer to the others.

    Attributes:
        url: Its address.
        fault: Called with method and path of every request; the fault that it meets, or None.
        met: The faults so far.
        asked: Method and path of all requests so far.
        encodings: What clients accept as the encoding of an answer.
        over: Set when the server ends.
    """

    def __init__(self) -> None:
        self.fault: Callable[[str, str], Fault | None] = lambda method, path: None
        self.met: list[Fault] = []
        self.asked: list[tuple[str, str]] = []
        self.encodings: set[str | None] = set()
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def consistencies(self) -> set[str]:
        """What reads asked for."""
        options = (parse_qsl(path.partition("?")[2]) for _, path in self.asked)
        return {value for name, value in chain.from_iterable(options) if name == "consistency"}

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve until the end of the block."""
        with serving(self._server):
            try:
                yield self
            finally:
                self.over.set()

    def respond(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes, int | None]:
        """Return status, body and Retry-After of the answer to a request."""
        raise NotImplementedError


def _handler(front: Front) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else a body waits for the receipt of its headers, 40 ms

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            front.asked.append((self.command, self.path))
            front.encodings.add(self.headers.get("accept-encoding"))
            fault = front.fault(self.command, self.path)
            if fault is not None:
                front.met.append(fault)
            if fault in _STATUS:
                said = {Fault.UNKNOWN: b"", Fault.REPLICA: _REPLICA_AWAY}.get(fault, b"{}")
                self._send(_STATUS[fault], said, 0 if fault is Fault.LIMITED else None)
                return
            if fault is not Fault.REFUSED:
                wanted = from_json(body) if body else {}
                status, answer, pause = front.respond(self.command, self.path, wanted)
            if fault is None:
                self._send(status, answer, pause)
                return
            if fault is Fault.STALLED:
                front.over.wait()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _send(self, status: int, body: bytes, pause: int | None) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if pause is not None:
                self.send_header("retry-after", str(pause))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._answer)
    return Handler
