"""TwinvecVectorStore for LangChain keeps metadata of every usual type, and filters find it."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.indexing import index
from qdrant_client import QdrantClient

from langchain_twinvec import TwinvecRecordManager, TwinvecVectorStore
from twinvec.errors import DocumentError

METADATA = {
    "moment": datetime(2024, 5, 1, 10, 30, tzinfo=UTC),
    "day": date(2024, 5, 1),
    "uuid": UUID("12345678-1234-5678-1234-567812345678"),
    "path": Path("a/b.md"),
    "price": Decimal("1.50"),
    "tags": {"b", "a"},
    "score": math.nan,
}
KEPT = {
    "moment": "2024-05-01T10:30:00Z",
    "day": "2024-05-01",
    "uuid": "12345678-1234-5678-1234-567812345678",
    "path": "a/b.md",
    "price": "1.50",
    "tags": ["a", "b"],
    "score": None,
}


@pytest.fixture(params=["embedded", "client"])
def store(request, tmp_path):
    place = {"path": tmp_path} if request.param == "embedded" else {"client": QdrantClient(":memory:")}
    store = TwinvecVectorStore(DeterministicFakeEmbedding(size=16), **place)
    yield store
    store.close()


def test_metadata_of_every_type_comes_back_and_is_filtered(store) -> None:
    store.add_documents([Document("one", id="one", metadata=METADATA), Document("two", id="two")])
    assert store.get_by_ids(["one"])[0].metadata == KEPT
    for wanted in (
        {"moment": {"gte": datetime(2024, 5, 1, tzinfo=UTC), "lt": "2024-05-02"}},
        {"day": date(2024, 5, 1)},
        {"day": {"lte": date(2024, 5, 1)}},
        {"tags": "b"},
        {"score": {"null": True}},
        {"uuid": KEPT["uuid"]},
    ):
        assert [found.id for found in store.similarity_search("one", filter=wanted)] == ["one"], wanted


def test_adding_the_same_again_changes_nothing(store) -> None:
    store.add_documents([Document("one", id="one", metadata=METADATA)])
    before = store.collection.info()
    store.add_documents([Document("one", id="one", metadata=METADATA)])
    assert store.collection.info() == before


def test_indexing_goes_on_with_values_that_json_lacks(store) -> None:
    documents = [Document(f"note {row}", metadata={"source": "a.md", "score": math.nan}) for row in range(3)]
    manager = TwinvecRecordManager(store)
    for expected in ("num_added", "num_skipped"):
        done = index(documents, manager, store, cleanup="full", source_id_key="source", key_encoder="blake2b")
        assert done[expected] == 3


def test_a_value_that_cannot_be_kept_is_named_with_document_and_key(store) -> None:
    with pytest.raises(DocumentError, match=r"1 of 2 texts.*'bad'.*'when'.*object"):
        store.add_texts(["fine", "not"], [{"when": date(2024, 1, 1)}, {"when": object()}], ids=["good", "bad"])
    assert [found.id for found in store.get_by_ids(["good", "bad"])] == ["good"]
