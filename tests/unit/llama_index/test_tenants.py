"""TwinvecVectorStore for LlamaIndex over a collection of many tenants: filters that name one, and what needs none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec.errors import FilterError
from twinvec_qdrant import Collection
from words import WordEncoder

ROWS = 6


@pytest.fixture
def store(tmp_path) -> Iterator[TwinvecVectorStore]:
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False, tenant_key="tenant") as collection:
        store = TwinvecVectorStore(collection=collection)
        store.add([node(tenant, row) for tenant in ("ada", "bob") for row in range(ROWS)])
        yield store


def node(tenant: str, row: int) -> TextNode:
    made = TextNode(
        id_=f"{tenant}{row}",
        text=f"note {row}",
        metadata={"tenant": tenant, "row": row, "kind": "odd" if row % 2 else "even"},
        excluded_embed_metadata_keys=["tenant", "row", "kind"],
    )
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"{tenant}.md")
    return made


def one(key: str, operator: str, value) -> MetadataFilter:
    return MetadataFilter(key=key, operator=FilterOperator(operator), value=value)


def many(*filters, condition: str = "and") -> MetadataFilters:
    return MetadataFilters(filters=list(filters), condition=FilterCondition(condition))


ADA = one("tenant", "==", "ada")


@pytest.mark.parametrize(
    ("filters", "rows"),
    [
        (many(ADA, one("kind", "!=", "odd")), [0, 2, 4]),
        (many(ADA, one("row", ">=", 1), one("row", "<", 4)), [1, 2, 3]),
        (many(ADA, many(one("row", "<", 1), one("row", ">", 4), condition="or")), [0, 5]),
        (many(ADA, many(one("kind", "==", "odd"), condition="not")), [0, 2, 4]),
        (many(ADA, one("row", "nin", [0, 1, 2])), [3, 4, 5]),
        (many(many(ADA, one("row", "==", 0)), many(ADA, one("row", "==", 5)), condition="or"), [0, 5]),
    ],
)
def test_a_filter_that_names_its_tenant_is_taken(store, filters, rows) -> None:
    expected = [f"ada{row}" for row in rows]
    query = VectorStoreQuery(query_str="note", similarity_top_k=50, filters=filters)
    assert sorted(store.query(query).ids) == expected
    assert sorted(each.node_id for each in store.get_nodes(filters=filters)) == expected


@pytest.mark.parametrize(
    "filters",
    [
        None,
        many(one("row", "==", 1)),
        many(one("tenant", "!=", "ada")),
        many(ADA, one("row", "==", 1), condition="or"),
    ],
)
def test_a_query_without_a_tenant_is_refused(store, filters) -> None:
    with pytest.raises(FilterError, match="tenant"):
        store.query(VectorStoreQuery(query_str="note", similarity_top_k=50, filters=filters))


@pytest.mark.parametrize("mode", ["default", "sparse", "hybrid", "mmr"])
def test_a_query_of_filters_alone_names_its_tenant_too(store, mode) -> None:
    for text in (None, "", " "):
        filters = many(ADA, one("row", "<", 2))
        query = VectorStoreQuery(query_str=text, similarity_top_k=50, filters=filters, mode=VectorStoreQueryMode(mode))
        found = store.query(query)
        assert list(zip(found.ids, found.similarities, strict=True)) == [("ada0", 0.0), ("ada1", 0.0)]
        query.filters = many(one("row", "<", 2))
        with pytest.raises(FilterError, match="tenant"):
            store.query(query)


@pytest.mark.parametrize("mode", ["default", "sparse", "hybrid", "mmr"])
def test_an_empty_query_with_a_vector_of_zeros_is_one_of_filters_alone(store, mode) -> None:
    """``VectorIndexAutoRetriever`` of LlamaIndex sends such a query if it has a ``default_empty_query_vector``."""
    filters = many(ADA, one("row", "<", 2))
    zeros = [0.0] * store.client.info()["dim"]
    found = store.query(
        VectorStoreQuery(
            query_embedding=zeros,
            query_str="",
            similarity_top_k=50,
            filters=filters,
            mode=VectorStoreQueryMode(mode),
        )
    )
    assert found.ids == ["ada0", "ada1"]


def test_clearing_removes_the_nodes_of_all_tenants(store) -> None:
    store.clear()
    assert store.get_nodes() == []
    assert store.client.count() == 0


async def test_the_awaited_form_removes_them_too(store) -> None:
    await store.aclear()
    assert store.client.count() == 0


def test_a_document_is_deleted_with_its_nodes_and_no_others(store) -> None:
    store.delete("ada.md")
    assert sorted(each.node_id for each in store.get_nodes()) == [f"bob{row}" for row in range(ROWS)]
    store.delete_nodes(filters=many(one("row", "<", 2)))
    assert sorted(each.node_id for each in store.get_nodes()) == ["bob2", "bob3", "bob4", "bob5"]
