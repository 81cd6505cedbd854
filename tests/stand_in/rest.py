"""The stand-in's HTTP interface, and the faults that its requests meet."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from enum import Enum
from http.server import BaseHTTPRequestHandler
from typing import Any, Protocol

from pydantic_core import from_json, to_json


class Fault(Enum):
    """What happens to a request.

    REFUSED: the connection is closed and nothing done. DROPPED: it is done, and the connection closed before the
    answer. STALLED: it is done, and no answer comes. BUSY: 503. LIMITED: 429 with Retry-After.
    """

    REFUSED = "refused"
    DROPPED = "dropped"
    STALLED = "stalled"
    BUSY = "busy"
    LIMITED = "limited"


class Answering(Protocol):
    """What the interface stands before."""

    fault: Callable[[str, str], Fault | None]
    met: list[Fault]
    over: threading.Event

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the server gives for a request."""


def handler(stand_in: Answering) -> type[BaseHTTPRequestHandler]:
    """Return the class that answers requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            fault = stand_in.fault(self.command, self.path)
            if fault is not None:
                stand_in.met.append(fault)
            if fault in (Fault.BUSY, Fault.LIMITED):
                self._send(503 if fault is Fault.BUSY else 429, b"{}")
                return
            if fault is not Fault.REFUSED:
                status, answer = self._done(from_json(body) if body else {})
            if fault is None:
                self._send(status, answer)
                return
            if fault is Fault.STALLED:
                stand_in.over.wait()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _done(self, body: dict[str, Any]) -> tuple[int, bytes]:
            try:
                result = stand_in.answer(self.command, self.path, body)
            except ValueError as error:
                return 404 if "not found" in str(error) else 400, to_json({"status": {"error": str(error)}})
            return 200, to_json({"result": result, "status": "ok", "time": 0.0})

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if status == 429:
                self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._answer)
    return Handler
