"""Every argument and method of LlamaIndex's ``QdrantVectorStore``: taken with the same meaning, or refused by name."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import AsyncQdrantClient, QdrantClient, models

from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec.errors import CollectionNotFoundError, ConfigurationError
from twinvec_qdrant import Collection, IndexSettings, joined_options

TEXTS = {"a": "the red fox", "b": "the blue dog", "c": "a red dog", "d": "the moon"}
GUIDE = Path(__file__).parents[3] / "docs/how-to/llama-index.md"


@pytest.fixture(scope="module")
def embed_model(tiny_model) -> TwinvecEmbedding:
    return TwinvecEmbedding(str(tiny_model("bert")))


@pytest.fixture(scope="module")
def store(embed_model) -> TwinvecVectorStore:
    """Not to be changed."""
    store = TwinvecVectorStore(embed_model)
    hidden = ["row", "note"]
    store.add(
        [
            TextNode(id_=key, text=text, metadata={"row": row}, excluded_embed_metadata_keys=hidden)
            for row, (key, text) in enumerate(TEXTS.items())
        ]
    )
    return store


def asked(mode: str = "default", k: int = 4, text: str = "moon", **fields) -> VectorStoreQuery:
    return VectorStoreQuery(query_str=text, similarity_top_k=k, mode=VectorStoreQueryMode(mode), **fields)


def test_a_store_takes_the_arguments_that_it_has_too(embed_model) -> None:
    client = QdrantClient(":memory:")
    store = TwinvecVectorStore(
        embed_model,
        collection_name="notes",
        client=client,
        batch_size=32,
        parallel=1,
        max_retries=3,
        client_kwargs={},
        enable_hybrid=True,
        index_doc_id=True,
        text_key="text",
        sharding_method=None,
        payload_indexes=[
            {"field_name": "day", "field_schema": models.PayloadSchemaType.DATETIME},
            {"field_name": "metadata.place", "field_schema": "keyword"},
        ],
    )
    assert store.collection_name == "notes"
    indexes = TwinvecVectorStore(
        embed_model, "notes", client=client, payload_indexes={"day": "datetime", "place": "keyword"}
    )
    assert indexes.client.info() == store.client.info()


def test_clusters_and_awaited_clients_have_their_names() -> None:
    ours = {"url": None, "api_key": None, "cluster": None}
    aclient = AsyncQdrantClient(":memory:")
    given = {"aclient": aclient, "shard_number": 2, "replication_factor": 3, "write_consistency_factor": 1}
    options = joined_options(ours, given)
    assert options["async_client"] is aclient
    cluster = options["cluster"]
    assert (cluster.shards, cluster.replication_factor, cluster.write_consistency_factor) == (2, 3, 1)


@pytest.mark.parametrize(
    ("argument", "ours"),
    [
        ({"fastembed_sparse_model": "Qdrant/bm25"}, "BM25 is built in"),
        ({"sparse_doc_fn": print}, "BM25 is built in"),
        ({"sparse_query_fn": print}, "BM25 is built in"),
        ({"hybrid_fusion_fn": print}, "alpha"),
        ({"dense_config": models.VectorParams(size=1, distance=models.Distance.DOT)}, "index=IndexSettings"),
        ({"sparse_config": models.SparseVectorParams()}, "index=IndexSettings"),
        ({"quantization_config": object()}, "quantization='int8'"),
        ({"dense_vector_name": "mine"}, "one layout"),
        ({"sparse_vector_name": "mine"}, "one layout"),
        ({"text_key": "content"}, "one layout"),
        ({"index_doc_id": False}, "payload_indexes"),
        ({"client_kwargs": {"timeout": 3}}, "client=QdrantClient"),
        ({"sharding_method": models.ShardingMethod.CUSTOM}, "tenant_key"),
        ({"shard_keys": ["a"]}, "tenant_key"),
        ({"shard_key_selector_fn": print}, "tenant_key"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_an_argument_that_cannot_be_honoured_names_ours(embed_model, argument, ours) -> None:
    with pytest.raises(ConfigurationError, match=ours) as caught:
        TwinvecVectorStore(embed_model, **argument)
    assert next(iter(argument)) in str(caught.value)


def test_the_order_of_qdrants_arguments_is_noticed(embed_model) -> None:
    for arguments in (("notes", QdrantClient(":memory:")), (embed_model, "notes", QdrantClient(":memory:"))):
        with pytest.raises(ConfigurationError, match="embed_model"):
            TwinvecVectorStore(*arguments)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 0.9])
def test_alpha_weighs_vectors_against_words(store, alpha) -> None:
    result = store.query(asked("hybrid", alpha=alpha))
    expected = store.client.search("moon", 4, "hybrid", weights=(2 * alpha, 2 - 2 * alpha))
    assert result.ids == [hit.id for hit in expected]
    assert result.similarities == pytest.approx([hit.score for hit in expected], abs=1e-5)
    vector = store.client.encoder.encode_query(["moon"])[0].tolist()
    assert store.query(asked("hybrid", alpha=alpha, query_embedding=vector)).ids == result.ids


def test_alpha_outside_0_to_1_is_refused(store) -> None:
    with pytest.raises(ConfigurationError, match="alpha"):
        store.query(asked("hybrid", alpha=1.5))


def test_each_stage_has_its_own_limit(store) -> None:
    assert len(store.query(asked("sparse", 4, "the red dog", sparse_top_k=2)).ids) == 2
    for alpha in (None, 0, 0.5, 1):
        assert len(store.query(asked("hybrid", 4, "the red dog", hybrid_top_k=3, alpha=alpha)).ids) == 3
    assert len(store.query(asked("hybrid", 2, "the red dog", sparse_top_k=4)).ids) == 2


@pytest.mark.parametrize(
    ("options", "candidates"),
    [({"mmr_prefetch_factor": 2.0}, 4), ({"mmr_prefetch_k": 3}, 3), ({}, 50), ({"mmr_prefetch_factor": 0.5}, 2)],
)
def test_candidates_of_mmr_are_as_many_as_asked(store, monkeypatch, options, candidates) -> None:
    asked_for = []
    search = Collection.search_diverse
    monkeypatch.setattr(
        Collection,
        "search_diverse",
        lambda *args, **named: asked_for.append(named["candidates"]) or search(*args, **named),
    )
    assert len(store.query(asked("mmr", 2), **options).ids) == 2
    assert asked_for == [candidates]


def test_an_exact_search_is_one(store, monkeypatch) -> None:
    exact = []
    for name in ("search", "search_vector"):
        search = getattr(Collection, name)
        monkeypatch.setattr(
            Collection,
            name,
            lambda *args, search=search, **named: exact.append(named["exact"]) or search(*args, **named),
        )
    vector = store.client.encoder.encode_query(["moon"])[0].tolist()
    for query in (asked(), asked(query_embedding=vector)):
        usual = store.query(query).ids
        for params in ({"exact": True}, models.SearchParams(exact=True)):
            assert store.query(query, search_params=params).ids == usual
    assert exact == [False, True, True] * 2
    with pytest.raises(ConfigurationError, match=r"hnsw_ef.*IndexSettings"):
        store.query(asked(), search_params={"hnsw_ef": 8})


def test_hybrid_queries_may_be_switched_off(embed_model) -> None:
    store = TwinvecVectorStore(embed_model, enable_hybrid=False)
    with pytest.raises(ConfigurationError, match="enable_hybrid"):
        store.query(asked("hybrid"))
    assert store.query(asked()).ids == []


def test_shards_are_refused_everywhere(store) -> None:
    for call in (
        lambda: store.query(asked(), shard_identifier="a"),
        lambda: store.add([], shard_identifier="a"),
        lambda: store.delete("a", shard_identifier="a"),
        lambda: store.delete_nodes(["a"], shard_identifier="a"),
        lambda: store.get_nodes(["a"], shard_identifier="a"),
    ):
        with pytest.raises(ConfigurationError, match=r"shard_identifier.*tenant_key"):
            call()
    assert store.query(asked(), shard_identifier=None).ids


def test_nodes_are_read_up_to_a_limit(store) -> None:
    assert len(store.get_nodes(limit=2)) == 2
    assert [node.node_id for node in store.get_nodes(["c", "a"], limit=1)] == ["c"]
    assert [node.node_id for node in store.get_nodes(["none", "c", "a"], limit=1)] == ["c"], (
        "a missing id takes no place"
    )


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("in", "x,y", {"a", "b"}),
        ("nin", "x,y", {"c"}),
        ("text_match", "Green tea", {"c"}),
        ("text_match_insensitive", "TEA", {"c"}),
        ("is_empty", None, {"d"}),
    ],
)
def test_operators_mean_what_they_mean_there(embed_model, operator, value, expected) -> None:
    notes = {"a": "x", "b": "y", "c": "some green tea"}
    store = TwinvecVectorStore(embed_model)
    store.add([TextNode(id_=key, text=key, metadata={"note": notes[key]} if key in notes else {}) for key in "abcd"])
    filters = MetadataFilters(filters=[MetadataFilter(key="note", value=value, operator=FilterOperator(operator))])
    found = {node.node_id for node in store.get_nodes(filters=filters)}
    assert found - {"d"} == expected - {"d"}
    assert ("d" in found) == (operator in ("is_empty", "nin"))


def test_the_settings_of_a_collection_are_reachable(embed_model, tmp_path) -> None:
    index = IndexSettings(quantization="int8")
    store = TwinvecVectorStore(
        embed_model, path=tmp_path, tenant_key="team", language="german", index=index, wait_seconds=1
    )
    info = store.client.info()
    assert (info["tenant_key"], info["language"], info["index"]["quantization"]) == ("team", "german", "int8")
    store.close()
    again = TwinvecVectorStore(path=tmp_path, create=False)
    assert again.client.info() == info
    again.close()
    with pytest.raises(CollectionNotFoundError):
        TwinvecVectorStore(embed_model, "missing", path=tmp_path, create=False)
    made = TwinvecVectorStore(embed_model, path=tmp_path, force_recreate=True)
    assert made.client.info()["tenant_key"] is None
    made.close()


def test_every_name_of_theirs_stands_in_the_guide() -> None:
    """A new version of llama-index-vector-stores-qdrant with a new argument fails here."""
    guide = GUIDE.read_text("utf-8")
    methods = ("__init__", "add", "delete", "delete_nodes", "get_nodes", "query", "clear")
    names = {
        parameter.name
        for method in methods
        for parameter in inspect.signature(getattr(QdrantVectorStore, method)).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD
    } - {"self"}
    names |= {"qdrant_filters", "search_params", "mmr_threshold", "mmr_prefetch_factor", "alpha", "sparse_top_k"}
    assert len(names) > 30
    assert sorted(name for name in names if f"`{name}`" not in guide) == []
