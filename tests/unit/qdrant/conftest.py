"""Collections for the tests, on both stores."""

from __future__ import annotations

import pytest
from qdrant_client import QdrantClient

from cases import slow
from stand_in import StandIn
from twinvec_qdrant import Collection
from twinvec_qdrant.ingest import pace
from words import WordEncoder


@pytest.fixture(autouse=True)
def steady_pace(monkeypatch):
    """Encoding takes no time, so that what is encoded and written at once is the same on every machine."""
    monkeypatch.setattr(pace, "clock", lambda: 0.0)


@pytest.fixture
def words() -> WordEncoder:
    return WordEncoder()


@pytest.fixture(params=["embedded", slow("client")])
def place(request, tmp_path):
    """Arguments of ``Collection.open`` that name a store; the same store for every call in a test."""
    if request.param == "embedded":
        yield {"path": tmp_path / "store"}
        return
    client = QdrantClient(":memory:")
    yield {"client": client}
    client.close()


@pytest.fixture
def collection(place, words):
    """A collection without chunking, filled with nothing."""
    with Collection.open("notes", encoder=words, chunking=False, **place) as opened:
        yield opened


@pytest.fixture
def server():
    """The stand-in of a Qdrant server."""
    with StandIn().running() as running:
        yield running
