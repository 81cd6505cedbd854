"""The vector store on a server with every limit of strict mode on."""

from __future__ import annotations

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters, VectorStoreQuery
from llama_index.core.vector_stores.types import VectorStoreQueryMode as Mode
from qdrant_client import QdrantClient

from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec_qdrant import ClusterSettings

MODEL = MockEmbedding(30)


def node(row: int) -> TextNode:
    made = TextNode(id_=f"n{row:02}", text=f"note {row}", metadata={"team": f"t{row % 3}"})
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"{row}.md")
    made.embedding = MODEL.get_text_embedding(made.text)
    return made


@pytest.mark.slow
def test_every_method_keeps_to_the_limits(strict, clock):
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    store = TwinvecVectorStore(MODEL, "notes", client=client)
    assert len(store.add([node(row) for row in range(30)])) == 30
    store.delete("5.md")
    store.delete_nodes(["n06"])
    teams = MetadataFilters(filters=[MetadataFilter(key="team", value="t1")])
    assert len(store.get_nodes()) == 28
    assert {each.metadata["team"] for each in store.get_nodes(filters=teams)} == {"t1"}
    for mode in (Mode.DEFAULT, Mode.SPARSE, Mode.HYBRID, Mode.MMR):
        query = VectorStoreQuery(node(7).embedding, 12, mode=mode, query_str="note 7", filters=teams)
        assert "n07" in store.query(query).ids
    store.clear()
    assert store.get_nodes() == []
    assert clock.pauses, "the budgets were used up"


def test_a_store_over_grpc(strict):
    with strict.over_grpc() as port:
        cluster = ClusterSettings(replication_factor=2)
        store = TwinvecVectorStore(MODEL, "notes", url=strict.url, grpc=True, grpc_port=port, cluster=cluster)
        store.add([node(row) for row in range(3)])
        assert len(store.get_nodes()) == 3
        assert store.client.info()["cluster"]["replication_factor"] == 2
        store.close()


def test_metadata_keys_are_indexed_as_asked(tmp_path):
    store = TwinvecVectorStore(MODEL, "notes", path=str(tmp_path), payload_indexes={"team": "text"})
    store.add([node(1)])
    assert store.client.info()["payload_indexes"] == {"ref_doc_id": "keyword", "team": "text"}
    store.client.close()
