"""Places of a framework's collection: a server, and a client of the local mode."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from qdrant_client import QdrantClient

from stand_in import StandIn
from twinvec_qdrant import AdoptReport, Collection, adopt_collection
from words import WordEncoder

pytest.importorskip("langchain_qdrant")
pytest.importorskip("llama_index.vector_stores.qdrant")

from frameworks_collections import NAME


class Theirs(NamedTuple):
    """A place with a client of the framework; ``options`` name it for twinvec."""

    client: QdrantClient
    options: dict[str, Any]
    server: StandIn | None = None

    def adopt(self, layout: str, encoder: object = None, **options: Any) -> AdoptReport:
        return adopt_collection(NAME, layout=layout, encoder=encoder, **self.options, **options)

    def opened(self, **options: Any) -> Collection:
        return Collection.open(NAME, create=False, **self.options, **options)


@pytest.fixture
def words() -> WordEncoder:
    return WordEncoder()


@pytest.fixture
def on_server():
    """A server with a client of the framework."""
    with StandIn().running() as server:
        client = QdrantClient(server.url, timeout=60, check_compatibility=False)
        yield Theirs(client, {"url": server.url}, server)
        client.close()


@pytest.fixture(params=["server", "local"])
def theirs(request):
    """Both places."""
    if request.param == "server":
        yield request.getfixturevalue("on_server")
        return
    client = QdrantClient(":memory:")
    yield Theirs(client, {"client": client})
    client.close()
