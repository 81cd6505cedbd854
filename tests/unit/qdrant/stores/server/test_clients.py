"""Clients of a server: what they share, and what they need not do anew."""

from __future__ import annotations

import asyncio

from qdrant_client.embed._inspection_cache import CACHE_STR_PATH

from twinvec_qdrant import Collection


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
