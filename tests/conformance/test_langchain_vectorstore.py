"""LangChain's own suite for vector stores, on every place a collection can live; none skipped or expected to fail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.vectorstores import VectorStore
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from qdrant_client import QdrantClient

from langchain_twinvec import TwinvecVectorStore


class TestEmbedded(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path: Path) -> Iterator[VectorStore]:
        store = TwinvecVectorStore(self.get_embeddings(), path=tmp_path)
        yield store
        store.close()


class TestClient(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return TwinvecVectorStore(self.get_embeddings(), client=QdrantClient(":memory:"))


class TestHybrid(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> VectorStore:
        return TwinvecVectorStore(self.get_embeddings(), mode="hybrid")
