"""TwinvecVectorStore for LangChain searches with vectors of its own model only, as far as it knows them."""

from __future__ import annotations

import pytest
from langchain_core.embeddings import Embeddings

from langchain_twinvec import TwinvecEmbeddings, TwinvecVectorStore
from twinvec.errors import SpaceMismatchError


class Wrapped(Embeddings):
    """Embeddings of another class that ask ours, as a cache does."""

    def __init__(self, inner: Embeddings) -> None:
        self.inner = inner

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.inner.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.inner.embed_query(text)


@pytest.fixture(scope="module")
def own(tiny_model) -> TwinvecEmbeddings:
    return TwinvecEmbeddings(model=str(tiny_model("bert")))


def test_a_vector_of_another_model_is_refused(own, tiny_model) -> None:
    other = TwinvecEmbeddings(model=str(tiny_model("bert")), query_prompt="a ")
    store = TwinvecVectorStore.from_texts(["one", "two"], own)
    for method in ("similarity_search_by_vector", "max_marginal_relevance_search_by_vector"):
        assert getattr(store, method)(own.embed_query("one"), 1)
        with pytest.raises(SpaceMismatchError):
            getattr(store, method)(other.embed_query("one"), 1)


def test_our_embeddings_may_lie_behind_others(own) -> None:
    store = TwinvecVectorStore.from_texts(["one", "two"], Wrapped(own))
    vector = store.embeddings.embed_query("one")
    assert store.similarity_search_by_vector(vector, 1)[0].page_content == "one"
    assert store.max_marginal_relevance_search_by_vector(vector, 1)[0].page_content == "one"
