"""LangChain's own suites for embeddings, on the default model."""

from __future__ import annotations

from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_tests.integration_tests import EmbeddingsIntegrationTests
from langchain_tests.unit_tests import EmbeddingsUnitTests

from langchain_twinvec import TwinvecEmbeddings


class DefaultModel:
    @property
    def embeddings_class(self) -> type[Embeddings]:
        return TwinvecEmbeddings

    @property
    def embedding_model_params(self) -> dict[str, Any]:
        return {"model": "default"}


class TestUnit(DefaultModel, EmbeddingsUnitTests): ...


class TestIntegration(DefaultModel, EmbeddingsIntegrationTests): ...
