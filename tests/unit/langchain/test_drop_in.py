"""Every argument and method of LangChain's ``QdrantVectorStore``: taken with the same meaning, or refused by name."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_qdrant import QdrantVectorStore, RetrievalMode
from qdrant_client import QdrantClient, models

from langchain_twinvec import TwinvecVectorStore
from twinvec.errors import CollectionNotFoundError, ConfigurationError, SpaceMismatchError, TextError
from twinvec_qdrant import Collection, IndexSettings, joined_options

EMBEDDINGS = DeterministicFakeEmbedding(size=16)
TEXTS = ["the red fox", "the blue dog", "a red dog", "the moon"]
GUIDE = Path(__file__).parents[3] / "docs/how-to/langchain.md"
NOWHERE = {"url": None, "api_key": None, "cluster": None}


@pytest.fixture
def client() -> QdrantClient:
    return QdrantClient(":memory:")


@pytest.fixture
def store(client) -> TwinvecVectorStore:
    store = TwinvecVectorStore(EMBEDDINGS, "notes", client=client)
    store.add_texts(TEXTS, [{"row": row} for row in range(4)], ids=["a", "b", "c", "d"])
    return store


@pytest.fixture
def theirs() -> QdrantVectorStore:
    return QdrantVectorStore.from_texts(TEXTS, EMBEDDINGS, location=":memory:", collection_name="notes")


def test_a_store_is_made_from_texts(client) -> None:
    store = TwinvecVectorStore.from_texts(
        TEXTS,
        EMBEDDINGS,
        [{"row": row} for row in range(4)],
        ids=[1, 2, 3, 4],
        collection_name="notes",
        location=":memory:",
        retrieval_mode=RetrievalMode.HYBRID,
        batch_size=2,
        distance=models.Distance.COSINE,
        vector_name="",
        content_payload_key="page_content",
        metadata_payload_key="metadata",
        sparse_vector_name="langchain-sparse",
        validate_embeddings=True,
        validate_collection_config=True,
        force_recreate=False,
        port=6333,
        grpc_port=6334,
        prefer_grpc=False,
    )
    assert store.retrieval_mode == RetrievalMode.HYBRID
    assert store.collection_name == "notes"
    assert {each.id for each in store.similarity_search("fox")} == {"1", "2", "3", "4"}


@pytest.mark.parametrize("embedding", [EMBEDDINGS, None])
def test_a_store_is_opened_from_an_existing_collection(store, client, embedding) -> None:
    if embedding is None:  # only a collection of a model that can be loaded needs no embeddings
        again = TwinvecVectorStore.from_existing_collection("notes", client=client, retrieval_mode="sparse")
    else:
        again = TwinvecVectorStore.from_existing_collection("notes", embedding, client=client, mode="sparse")
    assert again.similarity_search("moon", 1)[0].id == "d"
    with pytest.raises(CollectionNotFoundError):
        TwinvecVectorStore.from_existing_collection("other", EMBEDDINGS, client=client)


def test_construct_instance_takes_the_options_of_a_client() -> None:
    store = TwinvecVectorStore.construct_instance(EMBEDDINGS, client_options={"location": ":memory:"})
    assert len(store.collection_name) == 32
    named = TwinvecVectorStore.construct_instance(EMBEDDINGS, collection_name="notes", retrieval_mode="hybrid")
    assert (named.collection_name, named.retrieval_mode) == ("notes", "hybrid")


def test_force_recreate_begins_anew(store, client, tmp_path) -> None:
    again = TwinvecVectorStore(EMBEDDINGS, "notes", client=client, force_recreate=True)
    assert again.collection.count() == 0
    other = DeterministicFakeEmbedding(size=24)
    for size, embeddings in ((16, EMBEDDINGS), (24, other)):
        made = TwinvecVectorStore.from_texts(["x"], embeddings, path=tmp_path, force_recreate=True)
        assert made.collection.info()["dim"] == size
        assert made.collection.count() == 1
        made.close()
    with pytest.raises(SpaceMismatchError):
        TwinvecVectorStore(EMBEDDINGS, path=tmp_path)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"location": ":memory:"}, {"url": None}),
        ({"location": "http://db:6333"}, {"url": "http://db:6333"}),
        ({"location": "db"}, {"url": "http://db"}),
        ({"host": "db"}, {"url": "http://db:6333"}),
        ({"host": "db", "port": 7000, "https": True, "prefix": "v1"}, {"url": "https://db:7000/v1"}),
        ({"host": "db", "prefer_grpc": True}, {"url": "http://db:6333", "grpc": True}),
        ({"timeout": 30}, {"wait_seconds": 30.0}),
        ({"force_recreate": True}, {"recreate": True}),
    ],
)
def test_names_of_a_place_are_translated(given, options) -> None:
    assert joined_options(NOWHERE, given) == {**NOWHERE, **options}


def test_a_key_makes_a_host_secure_and_a_url_gets_its_port() -> None:
    ours = {**NOWHERE, "api_key": "k"}
    assert joined_options(ours, {"host": "db"})["url"] == "https://db:6333"
    assert joined_options({**NOWHERE, "url": "http://db"}, {"port": 6333})["url"] == "http://db:6333"
    with pytest.raises(ConfigurationError, match="one of location, host and url"):
        joined_options({**NOWHERE, "url": "http://db"}, {"host": "db"})


@pytest.mark.parametrize("given", [{"host": "::1"}, {"location": "key@db:x", "port": 6333}])
def test_an_address_that_is_none_is_refused_and_not_quoted(given) -> None:
    with pytest.raises(ConfigurationError, match=r"expected the address of a server, http://host:port") as caught:
        joined_options(NOWHERE, given)
    assert "key" not in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "ours"),
    [
        ({"sparse_embedding": object()}, "BM25 is built in"),
        ({"distance": models.Distance.DOT}, "cosine"),
        ({"vector_name": "mine"}, "one layout"),
        ({"sparse_vector_name": "mine"}, "one layout"),
        ({"content_payload_key": "text"}, "one layout"),
        ({"metadata_payload_key": "meta"}, "one layout"),
        ({"validate_embeddings": False}, "cannot be left out"),
        ({"validate_collection_config": False}, "cannot be left out"),
        ({"collection_create_options": {"on_disk_payload": True}}, "cluster=ClusterSettings"),
        ({"vector_params": {"on_disk": True}}, "index=IndexSettings"),
        ({"sparse_vector_params": {"index": None}}, "index=IndexSettings"),
        ({"auth_token_provider": print}, "client=QdrantClient"),
        ({"retrieval_mode": "fuzzy"}, "not one of .*hybrid"),
        ({"retrieval_mode": "hybrid", "mode": "sparse"}, "one of them"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_an_argument_that_cannot_be_honoured_names_ours(argument, ours) -> None:
    with pytest.raises(ConfigurationError, match=ours) as caught:
        TwinvecVectorStore(EMBEDDINGS, **argument)
    assert next(iter(argument)).removeprefix("retrieval_") in str(caught.value)


def test_the_order_of_qdrants_arguments_is_noticed(client) -> None:
    with pytest.raises(ConfigurationError, match=r"QdrantClient.*: write .*client=client"):
        TwinvecVectorStore(client, "notes", EMBEDDINGS)
    with pytest.raises(ConfigurationError, match="QdrantClient"):
        TwinvecVectorStore(client, "notes")


def test_the_client_is_the_one_that_was_given(store, client) -> None:
    assert store.client is client
    with pytest.raises(ConfigurationError, match=r"\.collection"):
        _ = TwinvecVectorStore(EMBEDDINGS).client


def test_offset_and_threshold_mean_what_they_mean_there(store, theirs) -> None:
    vector = EMBEDDINGS.embed_query("the red fox")
    scores = [score for _, score in theirs.similarity_search_with_score("the red fox")]
    low, high = (scores[2] + scores[3]) / 2, (scores[0] + scores[1]) / 2
    for options in ({"offset": 1}, {"score_threshold": high}, {"offset": 2, "score_threshold": low}):
        for method, query in (
            ("similarity_search", "the red fox"),
            ("similarity_search_by_vector", vector),
        ):
            expected = [each.page_content for each in getattr(theirs, method)(query, **options)]
            assert [each.page_content for each in getattr(store, method)(query, **options)] == expected, options
            assert expected
    assert store.similarity_search("the red fox", score_threshold=2.0) == []


def test_mmr_has_scores_and_a_threshold(store, theirs) -> None:
    vector = EMBEDDINGS.embed_query("the red fox")
    found = store.max_marginal_relevance_search_with_score_by_vector(vector, 3, lambda_mult=1.0)
    nearest = theirs.similarity_search_with_score("the red fox", 3)
    assert [document.page_content for document, _ in found] == [document.page_content for document, _ in nearest]
    assert [score for _, score in found] == pytest.approx([score for _, score in nearest], abs=1e-5)
    least = found[1][1]
    assert len(store.max_marginal_relevance_search("the red fox", 3, lambda_mult=1.0, score_threshold=least)) == 2


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_an_exact_search_is_one(store, mode, monkeypatch) -> None:
    asked = []
    search = Collection.search
    monkeypatch.setattr(
        Collection, "search", lambda *args, **options: asked.append(options) or search(*args, **options)
    )
    exact = store.similarity_search("the red fox", mode=mode, search_params=models.SearchParams(exact=True))
    assert exact == store.similarity_search("the red fox", mode=mode)
    assert [each["exact"] for each in asked] == [True, False]
    with pytest.raises(ConfigurationError, match=r"hnsw_ef.*IndexSettings"):
        store.similarity_search("the red fox", search_params=models.SearchParams(hnsw_ef=8))


@pytest.mark.parametrize(
    ("argument", "ours"),
    [
        ({"hybrid_fusion": models.FusionQuery(fusion=models.Fusion.DBSF)}, "weights"),
        ({"consistency": 2}, "read_consistency"),
        ({"with_payload": False}, "whole"),
        ({"with_vectors": True}, "encoder"),
        ({"shard_key_selector": "a"}, "tenant_key"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_an_argument_of_a_search_that_cannot_be_honoured_names_ours(store, argument, ours) -> None:
    vector = EMBEDDINGS.embed_query("fox")
    for call in (
        lambda: store.similarity_search("fox", **argument),
        lambda: store.similarity_search_by_vector(vector, **argument),
        lambda: store.max_marginal_relevance_search("fox", **argument),
    ):
        with pytest.raises(ConfigurationError, match=ours):
            call()
    assert store.similarity_search("fox", with_payload=True, consistency=None, hybrid_fusion=None)


def test_weights_decide_in_hybrid_searches(store) -> None:
    words, vectors = (
        store.similarity_search_with_score("moon", 4, mode="hybrid", weights=weights) for weights in ((0, 1), (1, 0))
    )
    assert words[0][0].id == "d"
    assert [each.id for each, _ in vectors] == [each.id for each in store.similarity_search("moon")]


def test_ids_may_be_whole_numbers(store) -> None:
    assert store.add_texts(["seven", "eight"], ids=[7, 8], wait=True) == ["7", "8"]
    assert [each.page_content for each in store.get_by_ids([8, 7])] == ["eight", "seven"]
    assert store.delete([7])
    assert [each.id for each in store.get_by_ids([8, 7])] == ["8"]


def test_documents_are_deleted_by_filter(store) -> None:
    store.delete(filter={"row": {"gte": 2}})
    assert sorted(store.collection.find()) == ["a", "b"]
    store.delete(
        ["a", "b"], filter=models.Filter(must=[models.FieldCondition(key="metadata.row", range=models.Range(lt=1))])
    )
    assert store.collection.find() == ["b"]
    store.delete([], filter={"row": 1})
    store.delete([])
    assert store.collection.find() == ["b"]
    store.delete(filter={"row": []})
    for everything in ({}, {"row": {"not_in": []}}, {"and": []}):
        with pytest.raises(ConfigurationError, match="every document satisfies the filter"):
            store.delete(filter=everything)
    assert store.collection.find() == ["b"]


def test_one_text_is_no_list_of_ids_or_texts(store) -> None:
    before = sorted(store.collection.find())
    assert {"a", "b", "c"} <= set(before)
    with pytest.raises(TextError, match="expected a list of ids, got str"):
        store.delete("abc")
    with pytest.raises(TextError, match="expected a list of ids, got str"):
        store.get_by_ids("abc")
    with pytest.raises(TextError, match="expected a list of ids, got str"):
        store.add_texts(["x", "y"], ids="xy")
    with pytest.raises(TextError, match="expected a list of texts, got str"):
        store.add_texts("hello")
    assert sorted(store.collection.find()) == before


@pytest.mark.parametrize("wrong", [2, -0.1, float("nan"), "0.5"])
def test_a_weight_of_relevance_is_a_number_from_0_to_1(store, wrong) -> None:
    with pytest.raises(ConfigurationError, match=rf"lambda_mult must (lie between 0 and 1|be a number), got {wrong!r}"):
        store.max_marginal_relevance_search("the red fox", lambda_mult=wrong)


def test_the_settings_of_a_collection_are_reachable(tmp_path) -> None:
    index = IndexSettings(quantization="int8")
    store = TwinvecVectorStore(
        EMBEDDINGS, path=tmp_path, tenant_key="team", language="german", index=index, wait_seconds=1
    )
    store.add_documents([Document("Häuser", id="a", metadata={"team": "x"})])
    info = store.collection.info()
    assert (info["tenant_key"], info["language"], info["index"]["quantization"]) == ("team", "german", "int8")
    assert [each.id for each in store.similarity_search("Haus", filter={"team": "x"}, mode="sparse")] == ["a"]
    store.close()
    with pytest.raises(CollectionNotFoundError):
        TwinvecVectorStore(EMBEDDINGS, "missing", path=tmp_path, create=False)


def test_every_name_of_theirs_stands_in_the_guide() -> None:
    """A new version of langchain-qdrant with a new argument fails here."""
    guide = GUIDE.read_text("utf-8")
    methods = ("__init__", "from_texts", "from_existing_collection", "similarity_search", "add_texts", "delete")
    methods += ("max_marginal_relevance_search", "max_marginal_relevance_search_with_score_by_vector")
    names = {
        parameter.name
        for method in methods
        for parameter in inspect.signature(getattr(QdrantVectorStore, method)).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    } - {"self"}
    assert len(names) > 30
    assert sorted(name for name in names if f"`{name}`" not in guide) == []
