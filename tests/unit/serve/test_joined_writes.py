"""The packets of an answer, as real connections to a real server receive them."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

import pytest

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


@pytest.mark.slow
def test_a_large_file_arrives_whole(address):
    with sent(address, "GET /docs/swagger-ui-bundle.js", b"Connection: close\r\n\r\n") as connection:
        head, _, body = until_closed(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert f"content-length: {len(body)}\r\n".encode() in head + b"\r\n"
    assert len(body) > 1_000_000
