"""Clients of a server: what they share, and what they need not do anew."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import textwrap
import threading
from contextlib import closing
from pathlib import Path

import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.embed._inspection_cache import CACHE_STR_PATH

import words as words_module
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.server.store import connect

FORKING = """
    import os, signal, sys
    import httpx
    from qdrant_client import QdrantClient
    sys.path.insert(0, sys.argv[1])
    from words import WordEncoder
    from twinvec_qdrant import Collection

    url = sys.argv[2]
    client = None if sys.argv[3] == "url" else QdrantClient(url, limits=httpx.Limits(), check_compatibility=False)
    place = {"url": url} if client is None else {"client": client}
    collection = Collection.open("notes", encoder=WordEncoder(), chunking=False, **place)
    collection.ingest([("a", "one text"), ("b", "another text")])
    if not (child := os.fork()):
        signal.alarm(120)
        os._exit(0 if collection.count() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [each.id for each in collection.get(["a"])] == ["a"]
"""


def test_answers_are_asked_for_without_compression(server, words):
    """A server sends a compressed answer in two packets, and the second comes 40 ms later."""
    with Collection.open("notes", url=server.url, encoder=words, chunking=False) as opened:
        opened.ingest([("a", "one text")])
        opened.search("text")
        asyncio.run(opened.asearch("text"))
    assert server.encodings == {"identity"}


def test_clients_share_the_certificates_and_know_the_requests_of_searches(server, words):
    contexts = []
    for _ in range(2):
        with Collection.open("notes", url=server.url, encoder=words, chunking=False) as opened:
            opened.ingest([("a", "one text"), ("b", "another text")])
            opened.search("text", filter={"id": "a"})
            client = opened._backend.requests.client
            contexts.append(client._client.openapi_client.client._client._transport._pool._ssl_context)
            analysed = set(client._inference_inspector.parser._cache) - set(CACHE_STR_PATH)
            assert not analysed
    assert contexts[0] is contexts[1]


@pytest.mark.parametrize("api_key", [None, "secret"])
def test_a_grpc_client_connects_soon_after_the_server_is_back(api_key):
    """Every request fails in the pauses between attempts to connect, which grow to two minutes by default."""
    with closing(connect("notes", "http://127.0.0.1", api_key, 10, grpc_port=6334)) as store:
        assert store.open().requests.client.init_options["grpc_options"]["grpc.max_reconnect_backoff_ms"] == 1000


def test_awaited_requests_over_grpc_warn_of_nothing(server, words, recwarn, monkeypatch):
    monkeypatch.setattr("qdrant_client.common.client_warnings.SEEN_MESSAGES", set())
    with server.over_grpc() as port:
        place = {"url": server.url, "api_key": "secret", "grpc": True, "grpc_port": port}
        with Collection.open("notes", **place, encoder=words, chunking=False) as opened:
            opened.ingest([("a", "one text")])
            assert asyncio.run(opened.asearch("text"))[0].id == "a"
    assert [each for each in recwarn if "grpc" in str(each.message)] == []


def test_a_closed_event_loop_leaves_no_client(server, words):
    """Frameworks such as Flask run each request in an event loop of its own."""
    with Collection.open("notes", url=server.url, encoder=words, chunking=False) as opened:
        opened.ingest([("a", "one text")])
        gc.collect()
        before = _async_clients()
        for _ in range(5):
            assert asyncio.run(opened.asearch("text"))[0].id == "a"
        gc.collect()
        assert _async_clients() <= before + 1


def _async_clients() -> int:
    return sum(type(each) is AsyncQdrantClient for each in gc.get_objects())


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.parametrize("made_by", ["url", "client"])
def test_a_forked_process_has_connections_of_its_own(server, made_by):
    """Two processes on one connection read each other's answers."""
    by_connection: list[tuple[int, str]] = []  # the stand-in has one thread for each connection

    def served(method, path):
        by_connection.append((threading.get_ident(), path.partition("?")[0]))

    server.fault = served
    modules = str(Path(words_module.__file__).parent)
    program = [sys.executable, "-c", textwrap.dedent(FORKING), modules, server.url, made_by]
    done = subprocess.run(program, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    of_child = {connection for connection, path in by_connection if path.endswith("/count")}
    of_parent = {connection for connection, path in by_connection if not path.endswith("/count")}
    assert len(of_child) == 1
    assert of_child.isdisjoint(of_parent)
    assert by_connection[-1][0] in {connection for connection, _ in by_connection[:-2]}, "the parent's stays open"
