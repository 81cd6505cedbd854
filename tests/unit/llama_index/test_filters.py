"""The filters that TwinvecVectorStore takes beside LlamaIndex's own."""

from __future__ import annotations

from uuid import uuid4

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import SimpleVectorStore
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.vector_stores.qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from cases import as_llama_index_core_0_14_23, slow
from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec.errors import ConfigurationError, FilterError
from twinvec_qdrant import Collection
from words import WordEncoder

METADATA = {
    "a": {"team": "hr", "year": 2019, "id": "x"},
    "b": {"team": "it", "year": 2020, "id": "y"},
    "c": {"team": "hr", "year": 2021},
}


@pytest.fixture(scope="module", params=["embedded", slow("client")])
def store(request, tmp_path_factory):
    place = (
        {"path": tmp_path_factory.mktemp("store")}
        if request.param == "embedded"
        else {"client": QdrantClient(":memory:")}
    )
    with Collection.open("notes", encoder=WordEncoder(), chunking=False, **place) as collection:
        store = TwinvecVectorStore(collection=collection)
        store.add([TextNode(id_=key, text=f"note {key}", metadata=each) for key, each in METADATA.items()])
        yield store


def own(key: str, value, operator: str = "==") -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=FilterOperator(operator))])


HR = models.FieldCondition(key="team", match=models.MatchValue(value="hr"))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (own("metadata.team", "hr"), "ac"),
        (own("id", "x"), "a"),
        (own("metadata.id", "y", "!="), "ac"),
        (own("year", "2020", ">="), "bc"),
        (own("year", " 2019.5", "<"), "a"),
        ({"id": "a"}, "a"),
        ({"metadata.id": "y"}, "b"),
        ({".id": "y"}, "b"),
        ({"team": "hr", "year": {"gte": 2020}}, "c"),
        ({"or": [{"team": "it"}, {"metadata.year": 2021}]}, "bc"),
        (models.Filter(must=[HR]), "ac"),
        (models.Filter(must_not=[HR]), "b"),
        (
            models.Filter(must=[models.FieldCondition(key="metadata.id", match=models.MatchAny(any=["x", "z"]))]),
            "a",
        ),
        (models.Filter(must=[models.HasIdCondition(has_id=["b"])]), "b"),
    ],
)
def test_queries_and_nodes_take_every_form(store, filters, expected) -> None:
    query = VectorStoreQuery(query_str="note", similarity_top_k=9, filters=filters)
    assert set(store.query(query).ids) == set(expected)
    assert {node.node_id for node in store.get_nodes(filters=filters)} == set(expected)


def test_qdrant_filters_replace_those_of_the_query(store) -> None:
    query = VectorStoreQuery(query_str="note", similarity_top_k=9, filters=own("team", "it"))
    assert set(store.query(query, qdrant_filters=models.Filter(must=[HR])).ids) == {"a", "c"}
    assert set(store.query(query, qdrant_filters={"team": "hr"}).ids) == {"a", "c"}


def test_an_index_hands_them_on(encoder) -> None:
    embed_model = TwinvecEmbedding(encoder=encoder)
    nodes = [TextNode(id_=key, text=f"note {key}", metadata=each) for key, each in METADATA.items()]
    store = TwinvecVectorStore(embed_model)
    store.add(nodes)
    index = VectorStoreIndex.from_vector_store(store, embed_model=embed_model)
    for options in (
        {"filters": {"team": "hr"}},
        {"vector_store_kwargs": {"qdrant_filters": models.Filter(must=[HR])}},
    ):
        found = index.as_retriever(similarity_top_k=9, **options).retrieve("note")
        assert {each.node_id for each in found} == {"a", "c"}


def test_nodes_are_deleted_by_every_form(tmp_path) -> None:
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as collection:
        store = TwinvecVectorStore(collection=collection)
        for filters in ({"team": "hr"}, models.Filter(must=[HR]), own("team", "hr")):
            store.add([TextNode(id_=key, text=f"note {key}", metadata=each) for key, each in METADATA.items()])
            store.delete_nodes(filters=filters)
            assert [node.node_id for node in store.get_nodes()] == ["b"]


def test_nodes_are_not_all_deleted_by_filters_without_a_condition(store) -> None:
    before = store.get_nodes()
    nothing = MetadataFilter(key="team", value=[], operator="nin")
    for filters in (MetadataFilters(filters=[]), {}, MetadataFilters(filters=[nothing]), {"team": {"not_in": []}}):
        with pytest.raises(ConfigurationError, match="filters with a condition"):
            store.delete_nodes(filters=filters)
    store.delete_nodes(filters={"team": []})
    assert len(store.get_nodes()) == len(before) > 0


@pytest.mark.parametrize(("operator", "found"), [("in", 0), ("any", 0), ("nin", 3), ("all", 3)])
def test_empty_lists_find_what_they_find_in_llama_indexs_own_store(store, operator, found) -> None:
    simple = SimpleVectorStore()
    simple.add([node.model_copy(update={"embedding": [1.0]}) for node in store.get_nodes()])
    filters = MetadataFilters(filters=[MetadataFilter(key="team", value=[], operator=operator)])
    expected = simple.query(VectorStoreQuery(query_embedding=[1.0], similarity_top_k=9, filters=filters)).ids
    ours = store.query(VectorStoreQuery(query_str="note", similarity_top_k=9, filters=filters))
    assert len(expected) == found
    assert sorted(ours.ids) == sorted(expected) == sorted(node.node_id for node in store.get_nodes(filters=filters))


@as_llama_index_core_0_14_23
@pytest.mark.parametrize(("operator", "value"), [("!=", "x"), ("nin", ["x", "y"])])
def test_unequal_finds_nodes_without_the_key_as_in_llama_indexs_own_store(store, operator, value) -> None:
    simple, qdrant = SimpleVectorStore(), QdrantVectorStore("theirs", client=QdrantClient(":memory:"))
    nodes = [node.model_copy(update={"embedding": [1.0]}) for node in store.get_nodes()]
    simple.add(nodes)
    qdrant.add([node.model_copy(update={"id_": str(uuid4())}) for node in nodes])
    filters = MetadataFilters(filters=[MetadataFilter(key="id", value=value, operator=operator)])
    query = VectorStoreQuery(query_embedding=[1.0], similarity_top_k=9, filters=filters)
    expected = {"b", "c"} if operator == "!=" else {"c"}
    assert set(simple.query(query).ids) == expected
    assert {node.node_id for node in store.get_nodes(filters=filters)} == expected
    assert {node.metadata.get("id") for node in qdrant.query(query).nodes} == ({"y"} if operator == "!=" else set())


def test_what_is_no_filter_is_refused(store) -> None:
    with pytest.raises(FilterError, match="got str"):
        store.query(VectorStoreQuery(query_str="note", filters="team = hr"))
    for text in ("many", "nan", "inf", ""):
        with pytest.raises(FilterError, match="gt takes a number"):
            store.get_nodes(filters=own("year", text, ">"))
