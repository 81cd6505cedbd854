"""Wrong types in arguments of the vector store: twinvec raises its own error, which names the argument."""

from __future__ import annotations

import re

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding

from langchain_twinvec import TwinvecVectorStore
from twinvec.errors import TwinvecError

EMBEDDINGS = DeterministicFakeEmbedding(size=8)


@pytest.fixture(scope="module")
def store():
    store = TwinvecVectorStore(EMBEDDINGS, "notes")
    store.add_texts(["green tea", "heavy rain"], ids=["tea", "rain"])
    return store


def refused(said: str, function, *arguments, **options):
    with pytest.raises(TwinvecError, match=re.escape(said)):
        function(*arguments, **options)


@pytest.mark.parametrize("value", [5, True, "exact", [1]], ids=repr)
def test_search_parameters(store, value):
    vector = EMBEDDINGS.embed_query("tea")
    said = "search_params: expected models.SearchParams or a mapping"
    refused(said, store.similarity_search, "tea", search_params=value)
    refused(said, store.similarity_search_by_vector, vector, search_params=value)
    refused(said, store.max_marginal_relevance_search, "tea", search_params=value)
    refused("search_params: expected a mapping with strings", store.similarity_search, "tea", search_params={1: 2})


@pytest.mark.parametrize("value", [5, [1], {"a": 1}, b"x"], ids=repr)
def test_arguments_of_the_constructor(value, tmp_path):
    def argument(said, **options):
        refused(said, TwinvecVectorStore, EMBEDDINGS, "notes", **options)

    argument("collection: expected a collection", collection=value)
    for name in ("location", "host", "prefix"):
        argument(f"{name} must be a string", **{"host": "h", name: value})
    if value != 5:
        argument("timeout must be a number", timeout=value)
    if value != {"a": 1}:
        argument("qdrant: expected a mapping", qdrant=value)
    for name in ("prefer_grpc", "https"):
        argument(f"{name} must be True or False", host="h", **{name: value})


@pytest.mark.parametrize("value", ["false", "", 0, 1], ids=repr)
def test_a_collection_is_removed_for_true_only(tmp_path, value):
    with TwinvecVectorStore(EMBEDDINGS, "notes", path=tmp_path).collection as kept:
        kept.ingest([("tea", "green tea")])
    refused("force_recreate must be True", TwinvecVectorStore, EMBEDDINGS, "notes", path=tmp_path, force_recreate=value)
    with TwinvecVectorStore(EMBEDDINGS, "notes", path=tmp_path).collection as kept:
        assert kept.find() == ["tea"]
