"""LangChain's own suite for retrievers, with and without reranking."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from langchain_twinvec import TwinvecRetriever
from twinvec import Encoder, MaxSimReranker, MemoryIndex

PASSAGES = [
    "Holidays are requested two weeks ahead.",
    "The VPN client is installed from the portal.",
    "Expenses are paid at the end of the month.",
    "A new laptop is ordered by the manager.",
    "Overtime is taken as free time within three months.",
]


class Suite(RetrieversIntegrationTests):
    reranked: bool

    @pytest.fixture(autouse=True)
    def _index(self, encoder: Encoder) -> None:
        index = MemoryIndex(encoder, PASSAGES)
        self.params = {"retriever": index, "reranker": MaxSimReranker(encoder) if self.reranked else None}

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return TwinvecRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return self.params

    @property
    def retriever_query_example(self) -> str:
        return "How do I get time off?"


class TestPlain(Suite):
    reranked = False


class TestReranked(Suite):
    reranked = True


del Suite
