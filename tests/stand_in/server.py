"""The stand-in as a running server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from stand_in.actions import Actions
from stand_in.rest import Fault, handler


class StandIn:
    """A running server.

    Attributes:
        url: Its address.
        fault: Called with method and path of every request; the fault that it meets, or None.
        met: The faults so far.
    """

    def __init__(self) -> None:
        self.fault: Callable[[str, str], Fault | None] = lambda method, path: None
        self.met: list[Fault] = []
        self._actions = Actions()
        self._turn = threading.Lock()
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[StandIn]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the server gives for a request."""
        route = path.partition("?")[0].removeprefix("/collections").strip("/")
        name, _, action = route.partition("/")
        with self._turn:
            return self._actions.do(f"{method} {action}".strip() if name else method, name, body)

    @property
    def graphs(self) -> list[int]:
        """The edges of a node of the index (m) after every update of a collection's settings."""
        return self._actions.graphs

    @property
    def fields(self) -> set[str]:
        """The payload fields with an index, of all collections."""
        return self._actions.fields
