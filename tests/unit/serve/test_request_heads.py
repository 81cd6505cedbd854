"""Limits of the heads of requests."""

from __future__ import annotations

import asyncio
import socket
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from twinvec_serve.safety.request_heads import LimitedHeads
from unit.serve.processes import serving


def test_a_head_without_end_is_refused_before_it_takes_memory(tmp_path, tiny):
    line = b"X: " + b"x" * 60_000 + b"\r\n"
    with serving(tmp_path, tiny) as server:
        address = urlsplit(server.address)
        begin = f"GET /healthz HTTP/1.1\r\nHost: {address.netloc}\r\n".encode()
        with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
            connection.sendall(begin)
            with pytest.raises(ConnectionError):  # the server closes the connection while the client still sends
                connection.sendall(500 * line)
        with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
            connection.sendall(begin + 4 * line + b"\r\n")
            assert connection.recv(1 << 20).startswith(b"HTTP/1.1 200")


async def test_a_connection_has_a_limited_time_for_a_head():
    asked = asyncio.Event()

    async def app(scope, receive, send):
        asked.set()
        await asyncio.Event().wait()

    protocol = LimitedHeads(uvicorn.Config(app), ServerState(), {})
    connection = Mock(spec=asyncio.Transport, **{"is_closing.return_value": False})
    connection.get_extra_info.return_value = None
    protocol.connection_made(connection)
    for part in (b"", b"\r\n", b"GET / HTTP/1.1\r\nHo", b"st: here\r\nX: "):
        protocol.data_received(part)
        assert not protocol.timeout_keep_alive_task.cancelled()
    protocol.timeout_keep_alive_handler()
    connection.close.assert_called_once()
    for part in (b"y\r\n\r\n", b"GET / HTTP/1.1\r\nHo"):  # the second request waits for the answer to the first
        protocol.data_received(part)
        assert protocol.timeout_keep_alive_task is None
    await asked.wait()
    (answering,) = protocol.tasks
    answering.cancel()
