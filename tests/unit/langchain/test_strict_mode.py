"""The vector store on a server with every limit of strict mode on."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from qdrant_client import QdrantClient

from langchain_twinvec import TwinvecVectorStore
from twinvec_qdrant import ClusterSettings

# no two are equally similar to a query: a server finds at most a page of equal ones
DOCUMENTS = [
    Document(page_content=f"note {row}" + " word" * row, id=f"n{row:02}", metadata={"team": f"t{row % 3}"})
    for row in range(30)
]


@pytest.mark.slow
def test_every_method_keeps_to_the_limits(strict, clock):
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    embeddings = DeterministicFakeEmbedding(size=24)
    store, free = (TwinvecVectorStore(embeddings, client=each, collection_name="notes") for each in (client, None))
    for each in (store, free):
        assert len(each.add_documents(DOCUMENTS)) == 30
        each.add_documents([Document(page_content="newer", id="n01")])
        each.delete(["n02", "n03"])

    def found(each: TwinvecVectorStore) -> list:
        return [
            each.get_by_ids(["n01", "n04"]),
            each.similarity_search("note 7", 20),
            each.similarity_search("note 7", 20, filter={"team": "t1"}),
            each.similarity_search("note 7", 20, mode="sparse"),
            each.similarity_search_by_vector(embeddings.embed_query("note 7"), 12),
            each.max_marginal_relevance_search("note 7", 5, fetch_k=25),
        ]

    limited, expected = found(store), found(free)
    assert [[document.id for document in each] for each in limited[:3]] == [
        [document.id for document in each] for each in expected[:3]
    ]
    assert [sorted(document.id for document in each) for each in limited[3:]] == [
        sorted(document.id for document in each) for each in expected[3:]
    ]
    assert store.delete()
    assert store.get_by_ids(["n01"]) == []
    assert clock.pauses, "the budgets were used up"


def test_a_store_over_grpc(strict):
    with strict.over_grpc() as port:
        store = TwinvecVectorStore(
            DeterministicFakeEmbedding(size=24),
            url=strict.url,
            grpc=True,
            grpc_port=port,
            cluster=ClusterSettings(replication_factor=2),
        )
        store.add_documents(DOCUMENTS[:3])
        assert len(store.similarity_search("note", 3)) == 3
        assert store.collection.info()["cluster"]["replication_factor"] == 2
        store.close()


def test_metadata_keys_are_indexed_as_asked(tmp_path):
    embeddings = DeterministicFakeEmbedding(size=24)
    store = TwinvecVectorStore(embeddings, "notes", path=tmp_path, payload_indexes={"day": "datetime", "place": False})
    store.add_documents([Document(page_content="note", metadata={"day": "2024-05-01", "place": "x", "team": "t"})])
    assert store.collection.info()["payload_indexes"] == {"day": "datetime", "team": "keyword"}
    store.close()
