"""Wrong types in arguments of the vector store and the retriever: twinvec's own error names the argument."""

from __future__ import annotations

import re

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from llama_index.retrievers.twinvec import TwinvecRetriever
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec.errors import TwinvecError


@pytest.fixture(scope="module")
def store(encoder):
    from llama_index.embeddings.twinvec import TwinvecEmbedding

    store = TwinvecVectorStore(TwinvecEmbedding(encoder=encoder))
    store.add([TextNode(text="green tea", id_="tea"), TextNode(text="heavy rain", id_="rain")])
    return store


def refused(said: str, function, *arguments, **options):
    with pytest.raises(TwinvecError, match=re.escape(said)):
        function(*arguments, **options)


@pytest.mark.parametrize("value", [5, None, "tea", b"x", [1]], ids=repr)
def test_queries(store, value):
    refused("query: expected VectorStoreQuery(...)", store.query, value)
    if value is not None:
        refused("search_params: expected", store.query, VectorStoreQuery(query_str="tea"), search_params=value)
    if not isinstance(value, str | None):
        refused("query_str must be a string", store.query, VectorStoreQuery(query_str=value))
    if value in (5, "tea", b"x"):
        refused("node_ids: expected a list", store.query, VectorStoreQuery(query_str="tea", node_ids=value))
        refused("doc_ids: expected a list", store.query, VectorStoreQuery(query_str="tea", doc_ids=value))


@pytest.mark.parametrize("value", [5, None, b"x", ["tea"], {"a": 1}], ids=repr)
def test_deleting(store, value):
    refused("ref_doc_id must be a string", store.delete, value)
    assert sorted(store.client.find()) == ["rain", "tea"]


def test_ids_in_a_set(store):
    assert [node.node_id for node in store.get_nodes({"tea"})] == ["tea"]
    assert store.get_nodes(set()) == []


@pytest.mark.parametrize("value", [5, "false", None, [1]], ids=repr)
def test_settings(store, encoder, value):
    for name in ("check_vectors", "enable_hybrid"):
        refused(f"{name} must be True or False", TwinvecVectorStore, **{name: value})
    refused("data: expected a mapping", TwinvecVectorStore.from_dict, value)
    if value is not None:
        refused("search_options: expected a mapping", TwinvecRetriever, store.client, search_options=value)


def test_recorded_settings_without_a_name():
    refused("was in memory", TwinvecVectorStore.from_dict, {})
    refused("collection_name must be a string", TwinvecVectorStore.from_dict, {"collection_name": 5})
