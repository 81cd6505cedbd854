"""TwinvecVectorStore for LangChain over a collection of many tenants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_core.documents import Document

from langchain_twinvec import TwinvecVectorStore
from twinvec.errors import FilterError
from twinvec_qdrant import Collection
from words import WordEncoder

DOCUMENTS = [
    Document(f"note {row} of {tenant}", id=f"{tenant}{row}", metadata={"tenant": tenant, "row": row})
    for tenant in ("ada", "bob")
    for row in range(3)
]


@pytest.fixture
def store(tmp_path) -> Iterator[TwinvecVectorStore]:
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False, tenant_key="tenant") as collection:
        store = TwinvecVectorStore(collection=collection)
        store.add_documents(DOCUMENTS)
        yield store


def test_deleting_without_ids_removes_the_documents_of_all_tenants(store) -> None:
    assert store.collection.count() == len(DOCUMENTS)
    assert store.delete()
    assert store.collection.find() == []
    assert store.collection.count() == 0


async def test_the_awaited_form_removes_them_too(store) -> None:
    assert await store.adelete()
    assert store.collection.count() == 0


def test_deleting_ids_leaves_the_others(store) -> None:
    assert store.delete(["ada0", "bob1"])
    assert sorted(store.collection.find()) == ["ada1", "ada2", "bob0", "bob2"]


def test_a_blank_query_without_a_tenant_is_refused(store) -> None:
    for search in (store.similarity_search, store.max_marginal_relevance_search):
        assert [document.id for document in search("", filter={"tenant": "ada", "row": 1})] == ["ada1"]
        with pytest.raises(FilterError, match="tenant"):
            search("", filter={"row": 1})
