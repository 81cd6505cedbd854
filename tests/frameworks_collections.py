"""Collections as LangChain's and LlamaIndex' own Qdrant classes make them, for the tests of adoption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from langchain_qdrant import QdrantVectorStore as LangChainStore
from llama_index.core.schema import MetadataMode, NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.vector_stores.qdrant import QdrantVectorStore as LlamaIndexStore
from qdrant_client import QdrantClient, models

from words import WordEncoder

NAME = "theirs"
COSINE = models.VectorParams(size=64, distance=models.Distance.COSINE)


class WordEmbeddings(Embeddings):
    """LangChain's embeddings of a ``WordEncoder``."""

    def __init__(self, encoder: WordEncoder) -> None:
        self.encoder = encoder

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.encoder.encode_document(texts).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.encoder.encode_query([text])[0].tolist()


def langchain_store(client: QdrantClient, encoder: WordEncoder, name: str = NAME, **options: Any) -> LangChainStore:
    """LangChain's store of a collection; it makes one with an unnamed vector, as its documentation does."""
    if not client.collection_exists(name):
        vector = options.get("vector_name", "")
        client.create_collection(name, vectors_config={vector: COSINE} if vector else COSINE)
    return LangChainStore(client=client, collection_name=name, embedding=WordEmbeddings(encoder), **options)


def fill_langchain(store: LangChainStore, count: int = 50) -> list[str]:
    """Add documents: note 0, note 1, ...; return their ids as the server has them."""
    texts = [f"note {row} about topic {row % 7}" for row in range(count)]
    metadatas = [{"number": row, "source": f"file-{row % 3}.md"} for row in range(count)]
    ids = [f"00000000-0000-4000-8000-{row:012}" for row in range(count)]
    store.add_texts(texts, metadatas, ids=ids)
    return ids


def nodes(encoder: WordEncoder, count: int = 50, **metadata: Any) -> list[TextNode]:
    """Nodes of three documents with metadata that is embedded, except for the page."""
    made = []
    for row in range(count):
        node = TextNode(
            id_=f"00000000-0000-4000-8000-{row:012}",
            text=f"note {row} about topic {row % 7}",
            metadata={"file_name": f"file-{row % 3}.md", "page": row, **metadata},
            excluded_embed_metadata_keys=["page"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"doc-{row % 3}")},
        )
        made.append(with_vector(node, encoder))
    return made


def with_vector(node: TextNode, encoder: WordEncoder, mode: MetadataMode = MetadataMode.EMBED) -> TextNode:
    """The node with the vector of its text, as an index of LlamaIndex gives it."""
    node.embedding = encoder.encode_document([node.get_content(mode)])[0].tolist()
    return node


def llama_store(client: QdrantClient, name: str = NAME, **options: Any) -> LlamaIndexStore:
    """LlamaIndex' store of a collection, which it makes when nodes are added."""
    if options.get("enable_hybrid"):
        options |= {"sparse_doc_fn": _sparse, "sparse_query_fn": _sparse}
    return LlamaIndexStore(client=client, collection_name=name, **options)


def llama_search(store: LlamaIndexStore, encoder: WordEncoder, text: str, limit: int = 3, **options: Any) -> Any:
    """What LlamaIndex' store finds by vectors."""
    vector = encoder.encode_query([text])[0].tolist()
    return store.query(VectorStoreQuery(query_embedding=vector, similarity_top_k=limit, **options))


def _sparse(texts: Sequence[str]) -> tuple[list[list[int]], list[list[float]]]:
    return [[len(text)] for text in texts], [[1.0] for _ in texts]
