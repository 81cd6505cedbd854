"""HTTP servers that tests run in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer

_POLL_SECONDS = 0.01  # how soon a server notices that it is to end; without it, every test waits for half a second


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    """Let a thread serve until the end of the block; yields the server's address."""
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,))
    with server:
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
