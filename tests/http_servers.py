"""HTTP servers that tests run in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer

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


class PathProxy(ThreadingHTTPServer):
    """A proxy at a free port. It passes requests below ``path`` on, without this path, to a port of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.path = path
        self.target = 0


class _Forwarding(BaseHTTPRequestHandler):
    server: PathProxy

    def do_GET(self) -> None:
        if not self.path.startswith(f"{self.server.path}/"):
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        connection = HTTPConnection("127.0.0.1", self.server.target)
        connection.request(self.command, self.path.removeprefix(self.server.path), body, dict(self.headers))
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        connection.close()

    do_POST = do_GET

    def log_message(self, *_: object) -> None:
        pass
