"""Clients of a server: what they share, and what they need not do anew."""

from __future__ import annotations

import asyncio
import gc
from contextlib import closing

import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.embed._inspection_cache import CACHE_STR_PATH

from twinvec_qdrant import Collection
from twinvec_qdrant.stores.server.store import connect


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
