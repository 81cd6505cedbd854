"""TwinvecVectorStore for LlamaIndex keeps metadata of every usual type, of nodes and of their documents."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from llama_index.core import Document
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import NodeRelationship, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec.errors import DocumentError
from twinvec_qdrant import Collection
from words import WordEncoder

METADATA = {"moment": datetime(2024, 5, 1, tzinfo=UTC), "path": Path("a.md"), "tags": {"b", "a"}, "score": math.nan}
KEPT = {"moment": "2024-05-01T00:00:00Z", "path": "a.md", "tags": ["a", "b"], "score": None}


@pytest.fixture
def store(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as collection:
        yield TwinvecVectorStore(collection=collection)


def test_a_node_comes_back_with_its_metadata(store) -> None:
    node = TextNode(id_="one", text="one", metadata=METADATA)
    store.add([node])
    assert store.get_nodes(["one"])[0].metadata == KEPT
    assert node.metadata == METADATA, "the caller's node stays"
    later = MetadataFilter(key="moment", operator=FilterOperator.GTE, value="2024-05-01")
    assert [each.node_id for each in store.get_nodes(filters=MetadataFilters(filters=[later]))] == ["one"]


def test_a_pipeline_keeps_the_metadata_of_documents(store) -> None:
    splitter = SentenceSplitter(chunk_size=64, chunk_overlap=0)
    document = Document(id_="doc", text="one. two.", metadata={"day": date(2024, 5, 1)})
    IngestionPipeline(transformations=[splitter], vector_store=store).run(documents=[document])
    store.add(splitter([document]))
    for found in store.get_nodes():
        assert found.metadata == {"day": "2024-05-01"}
        assert found.relationships[NodeRelationship.SOURCE].metadata == {"day": "2024-05-01"}
    assert store.get_nodes()


def test_a_value_that_cannot_be_kept_is_named_with_node_and_key(store) -> None:
    nodes = [TextNode(id_="good", text="a"), TextNode(id_="bad", text="b", metadata={"when": object()})]
    with pytest.raises(DocumentError, match=r"1 of 2 nodes.*'bad'.*'when'.*object"):
        store.add(nodes)
    assert [each.node_id for each in store.get_nodes()] == ["good"]
