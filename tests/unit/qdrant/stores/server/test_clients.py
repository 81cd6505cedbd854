"""Clients of a server: what they share, and what they need not do anew."""

from __future__ import annotations

import pytest
from qdrant_client.embed._inspection_cache import CACHE_STR_PATH

from twinvec_qdrant import Collection


@pytest.fixture
def server(server):
    return server.url


def test_clients_share_the_certificates_and_know_the_requests_of_searches(server, words):
    contexts = []
    for _ in range(2):
        with Collection.open("notes", url=server, encoder=words, chunking=False) as opened:
            opened.ingest([("a", "one text"), ("b", "another text")])
            opened.search("text", filter={"id": "a"})
            client = opened._backend.requests.client
            contexts.append(client._client.openapi_client.client._client._transport._pool._ssl_context)
            analysed = set(client._inference_inspector.parser._cache) - set(CACHE_STR_PATH)
            assert not analysed
    assert contexts[0] is contexts[1]
