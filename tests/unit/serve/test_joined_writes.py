"""The packets of requests and answers, as real connections to a real server receive them."""

from __future__ import annotations

import asyncio
import json
import socket
from unittest.mock import Mock
from urllib.parse import urlsplit

import pytest
import uvicorn
from uvicorn.server import ServerState

from twinvec_serve.joined_writes import JoinedProtocol
from unit.serve.processes import serving

BODY = json.dumps({"input": "first"}).encode()


@pytest.fixture(scope="module")
def address(tiny, tmp_path_factory):
    with serving(tmp_path_factory.mktemp("served"), tiny) as server:
        yield urlsplit(server.address)


def sent(address, request: str, content: bytes = b"") -> socket.socket:
    connection = socket.create_connection((address.hostname, address.port), timeout=120)
    connection.sendall(f"{request} HTTP/1.1\r\nHost: {address.netloc}\r\n".encode() + content)
    return connection


def until_closed(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 20), b""))


def with_body(*headers: str) -> bytes:
    lines = ["Content-Type: application/json", f"Content-Length: {len(BODY)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("turn", range(3))
def test_the_head_and_the_body_arrive_at_once(address, turn):
    with sent(address, "POST /v1/embeddings", with_body() + BODY) as connection:
        head, _, body = connection.recv(1 << 20).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert len(json.loads(body)["data"]) == 1


def test_requests_in_one_packet_are_answered_in_turn(address):
    one = f"POST /v1/embeddings HTTP/1.1\r\nHost: {address.netloc}\r\n".encode()
    content = with_body() + BODY + one + with_body("Connection: close") + BODY
    with sent(address, "POST /v1/embeddings", content) as connection:
        answers = until_closed(connection)
    assert answers.count(b"HTTP/1.1 200") == 2
    assert answers.count(b'"embedding":[') == 2


def test_the_answer_before_the_end_of_a_connection_is_whole(address):
    with sent(address, "POST /v1/embeddings", with_body("Connection: close") + BODY) as connection:
        _, _, body = until_closed(connection).partition(b"\r\n\r\n")
    assert len(json.loads(body)["data"]) == 1


def test_a_body_is_asked_for_before_it_is_sent(address):
    with sent(address, "POST /v1/embeddings", with_body("Expect: 100-continue", "Connection: close")) as connection:
        assert connection.recv(1 << 20).startswith(b"HTTP/1.1 100 Continue")
        connection.sendall(BODY)
        assert b"HTTP/1.1 200" in until_closed(connection)


def test_what_is_not_http_is_refused_whole(address):
    with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
        connection.sendall(b"no request\r\n\r\n")
        assert until_closed(connection).endswith(b"Invalid HTTP request received.")


def test_a_head_without_end_is_refused_before_it_takes_memory(address):
    with sent(address, "GET /healthz") as connection:
        line = b"X: " + b"x" * 60_000 + b"\r\n"
        with pytest.raises(ConnectionError):  # the server closes the connection while the client still sends
            connection.sendall(500 * line)
    with sent(address, "GET /healthz", 4 * line + b"Connection: close\r\n\r\n") as connection:
        assert until_closed(connection).startswith(b"HTTP/1.1 200")


async def test_a_connection_has_a_limited_time_for_a_head():
    asked = asyncio.Event()

    async def app(scope, receive, send):
        asked.set()
        await asyncio.Event().wait()

    protocol = JoinedProtocol(uvicorn.Config(app), ServerState(), {})
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


@pytest.mark.slow
def test_a_large_file_arrives_whole(address):
    with sent(address, "GET /docs/swagger-ui-bundle.js", b"Connection: close\r\n\r\n") as connection:
        head, _, body = until_closed(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert f"content-length: {len(body)}\r\n".encode() in head + b"\r\n"
    assert len(body) > 1_000_000
