"""The load of ``serving.py``: connections that post one request after the other, in a process of their own.

    python benchmarks/serving_load.py --port 6380 --clients 8 --seconds 5 < REQUESTS.jsonl

Each line of the input is one request, as ``["/v1/embeddings", {"input": ...}]``. The connections send them in turn, and
start again after the last one. The program prints a JSON object: the seconds until the last answer, the statuses, and
the milliseconds of each answer.

To measure only the server, the program does as little as possible for each request: it writes prepared bytes, and reads
only the status and the length of an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import cast

import uvloop


class Connection(asyncio.Protocol):
    """One client: sends the next request as soon as the last one is answered."""

    def __init__(self, requests: Iterator[bytes], end: float, ended: asyncio.Future[None]) -> None:
        self._requests = requests
        self._end = end
        self._ended = ended
        self._received = bytearray()
        self._wanted = 0
        self._sent_at = 0.0
        self.milliseconds: list[float] = []
        self.statuses: Counter[int] = Counter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._wanted:
            head = self._received.find(b"\r\n\r\n")
            if head < 0:
                return
            lines = bytes(self._received[:head]).lower().split(b"\r\n")
            lengths = [line.partition(b":")[2] for line in lines if line.startswith(b"content-length:")]
            self._wanted = head + 4 + int(lengths[0])
            self._status = int(lines[0].split()[1])
        if len(self._received) >= self._wanted:
            self._note()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_exception(error or ConnectionResetError("the server closed the connection"))

    def _note(self) -> None:
        now = time.perf_counter()
        self._received.clear()
        self._wanted = 0
        self.milliseconds.append(1000 * (now - self._sent_at))
        self.statuses[self._status] += 1
        if now < self._end:
            self._send()
        else:
            self._ended.set_result(None)
            self._transport.close()

    def _send(self) -> None:
        request = next(self._requests)
        self._sent_at = time.perf_counter()
        self._transport.write(request)


def prepared(port: int, line: bytes) -> bytes:
    """Return the bytes of a request."""
    path, body = json.loads(line)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


async def load(port: int, lines: list[bytes], clients: int, seconds: float) -> dict[str, object]:
    """Let the given number of clients send requests for the given time; return the statuses and times of answers."""
    requests = itertools.cycle([prepared(port, line) for line in lines])
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    end = start + seconds
    ends: list[asyncio.Future[None]] = [loop.create_future() for _ in range(clients)]
    opened = [
        await loop.create_connection(partial(Connection, requests, end, ended), "127.0.0.1", port) for ended in ends
    ]
    await asyncio.gather(*ends)
    taken = time.perf_counter() - start
    connections = [connection for _, connection in opened]
    statuses: Counter[int] = sum((each.statuses for each in connections), Counter())
    milliseconds = [time for each in connections for time in each.milliseconds]
    return {"seconds": taken, "statuses": statuses, "milliseconds": milliseconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    lines = sys.stdin.buffer.read().splitlines()
    print(json.dumps(uvloop.run(load(options.port, lines, options.clients, options.seconds))))


if __name__ == "__main__":
    main()
