"""TwinvecVectorStore: a twinvec collection in Qdrant as a LlamaIndex vector store.

Nodes are stored whole, one point each, under any id. Async methods run the blocking ones in a worker thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec.filters import as_filter
from llama_index.vector_stores.twinvec.nodes import node_of, stored
from twinvec import Encoder, Hit
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.errors import ConfigurationError
from twinvec.retrieval.filters import Filter
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import check_choice, refuse_unknown
from twinvec_qdrant import (
    ClusterSettings,
    Collection,
    all_of,
    ingest_all,
    open_whole_documents,
    query_space,
    with_documents,
)

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

    AnyFilters = MetadataFilters | Filter | models.Filter

_SPARSE = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
_HYBRID = (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.SEMANTIC_HYBRID)
_MODES = (VectorStoreQueryMode.DEFAULT, *_SPARSE, *_HYBRID, VectorStoreQueryMode.MMR)


class TwinvecVectorStore(BasePydanticVectorStore):
    """A collection as a vector store.

        store = TwinvecVectorStore(embed_model, collection_name="handbook", path="./.twinvec")
        index = VectorStoreIndex.from_vector_store(store, embed_model=embed_model)

    Query modes: default (vectors), sparse and text_search (BM25), hybrid and semantic_hybrid (both, fused), mmr.

    Args:
        embed_model: The LlamaIndex embedding of the index (default: the collection's model). The collection records
            the model of a ``TwinvecEmbedding``, and of others a digest of the vectors of a few probe texts.
        collection_name: Name of the collection, which is created if it does not exist.
        path: Folder of the embedded store.
        url: Address of a Qdrant server.
        client: An open ``QdrantClient``. Without path, url and client, the collection is in memory.
        api_key: Key for ``url`` (default: the environment variable ``QDRANT_API_KEY``).
        collection: An open collection without chunking, instead of the arguments before.
        grpc: Speak gRPC with the server at ``url``, at its port ``grpc_port``, instead of REST.
        grpc_port: See ``grpc``.
        cluster: How a server keeps the collection (``twinvec_qdrant.ClusterSettings``).
        payload_indexes: Indexes of metadata keys for filters, as for ``Collection.open`` (default: every key gets one).
        check_vectors: Check that the vectors of queries and nodes are of the collection's model. Those of a
            ``TwinvecEmbedding`` cost nothing; for any other, the collection's model embeds the text again. False trusts
            the caller, for example with a hosted model, or where a query has the vector of another text.

    Raises:
        ConfigurationError: arguments contradict one another or the collection.
        SpaceMismatchError: the collection belongs to another model; nothing was read or written.
        StoreError: the store is busy, unreachable or damaged.
    """

    stores_text: bool = True
    is_embedding_query: bool = True
    collection_name: str = Field(description="Name of the collection.")
    path: str | None = Field(description="Folder of the embedded store.")
    url: str | None = Field(description="Address of the server.")

    _collection: Collection = PrivateAttr()
    _check_vectors: bool = PrivateAttr()

    def __init__(
        self,
        embed_model: BaseEmbedding | None = None,
        collection_name: str = "llama_index",
        *,
        path: str | None = None,
        url: str | None = None,
        client: QdrantClient | None = None,
        api_key: str | None = None,
        collection: Collection | None = None,
        grpc: bool = False,
        grpc_port: int = 6334,
        cluster: ClusterSettings | None = None,
        payload_indexes: Mapping[str, str | Literal[False]] | Literal[False] | None = None,
        check_vectors: bool = True,
    ) -> None:
        opened = open_whole_documents(
            collection_name,
            encoder=None if embed_model is None else _encoder(embed_model),
            path=path,
            url=url,
            client=client,
            api_key=api_key,
            collection=collection,
            grpc=grpc,
            grpc_port=grpc_port,
            cluster=cluster,
            payload_indexes=payload_indexes,
        )
        settings: dict[str, Any] = {"collection_name": opened.name, "path": path and str(path), "url": url}
        super().__init__(**settings)
        self._collection = opened
        self._check_vectors = check_vectors

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised settings."""
        return "TwinvecVectorStore"

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> TwinvecVectorStore:
        """Open the collection that ``to_dict`` recorded, by path or url; ``api_key`` must be given again.

        Raises:
            ConfigurationError: neither is recorded, because the collection was in memory or used a client.
        """
        place = {name: value for name in ("path", "url") if (value := data.get(name)) is not None}
        if not place and not kwargs.keys() & {"client", "collection", "path", "url"}:
            raise ConfigurationError(
                f"collection {data['collection_name']!r} was in memory or used a client: give client or collection"
            )
        return cls(collection_name=data["collection_name"], **place, **kwargs)

    @property
    def client(self) -> Collection:
        """The collection that holds the nodes."""
        return self._collection

    def close(self) -> None:
        """Close the collection; a second call does nothing."""
        self._collection.close()

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes, or replace the nodes with the same ids; an unchanged node is not encoded again.

        The collection's model embeds a node without an embedding. The last node of an id is kept.

        Returns:
            The ids of the nodes.

        Raises:
            SpaceMismatchError: another model embedded a node; nothing was written.
            BadVectorError: an embedding is not finite, is zero, or has another size; nothing was written.
            DocumentError: nodes were refused, named by id and reason; the others were stored.
        """
        refuse_unknown(kwargs)
        latest = {node.node_id: node for node in nodes}
        vectors = {key: node.embedding for key, node in latest.items() if node.embedding is not None}
        documents = [*map(stored, latest.values())]
        ingest_all(self._collection, documents, f"{len(latest)} nodes", vectors, check=self._check_vectors)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        refuse_unknown(delete_kwargs)
        self._collection.delete(self._collection.find({"ref_doc_id": ref_doc_id}))

    def get_nodes(self, node_ids: list[str] | None = None, filters: AnyFilters | None = None) -> list[BaseNode]:
        """Return the nodes with these ids that satisfy the filters; all nodes if neither is given."""
        return [node_of(document) for document in self._collection.get(self._selected(node_ids, filters))]

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: AnyFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete the nodes with these ids that satisfy the filters.

        Raises:
            ConfigurationError: neither ids nor filters are given; ``clear`` deletes all nodes.
        """
        refuse_unknown(delete_kwargs)
        if node_ids is None and filters is None:
            raise ConfigurationError("give node_ids or filters; clear() deletes all nodes")
        self._collection.delete(self._selected(node_ids, filters))

    def clear(self) -> None:
        """Delete all nodes, of all tenants."""
        self._collection.delete(self._collection.find())

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the best nodes, best first.

        Args:
            query: The query; the collection's model embeds a query without an embedding.
            kwargs: ``mmr_threshold``, for mmr: weight of relevance against difference, from 0 to 1 (default: 0.5);
                ``qdrant_filters``: a ``qdrant_client.models.Filter`` instead of all conditions of the query.

        Raises:
            SpaceMismatchError: another model embedded the query.
            ConfigurationError: the mode or an argument is not supported.
            FilterError: the filter is not supported.
        """
        found = with_documents(self._collection, self._search(query, **kwargs))
        return VectorStoreQueryResult(
            nodes=[node_of(document) for document, _ in found],
            similarities=[float(hit.score) for _, hit in found],
            ids=[hit.id for _, hit in found],
        )

    # ignored: a keyword argument could be called "self"
    async_add = awaitable(add)  # type: ignore[arg-type]
    adelete = awaitable(delete)  # type: ignore[arg-type]
    aget_nodes = awaitable(get_nodes)
    adelete_nodes = awaitable(delete_nodes)  # type: ignore[arg-type]
    aclear = awaitable(clear)
    aquery = awaitable(query)  # type: ignore[arg-type]

    def _search(
        self,
        query: VectorStoreQuery,
        *,
        mmr_threshold: float | None = None,
        qdrant_filters: object = None,
        **others: Any,
    ) -> list[Hit]:
        refuse_unknown(others)
        mode = _mode(query)
        conditions = self._conditions(query) if qdrant_filters is None else as_filter(qdrant_filters)
        text, vector, collection = query.query_str or "", query.query_embedding, self._collection
        limit = query.similarity_top_k
        if mode in _SPARSE:
            return collection.search(text, query.sparse_top_k or limit, "sparse", conditions)
        if mode is VectorStoreQueryMode.MMR:
            wanted = query.mmr_threshold if mmr_threshold is None else mmr_threshold
            relevance = 0.5 if wanted is None else wanted
            if vector is None:
                return collection.search_diverse(text, limit, conditions, diversity=1 - relevance)
            space = self._space(text, vector)
            return collection.search_diverse(vector, limit, conditions, diversity=1 - relevance, space=space)
        words = text if mode in _HYBRID else None
        limit = query.hybrid_top_k or limit if words is not None else limit
        if vector is None:
            return collection.search(text, limit, "dense" if words is None else "hybrid", conditions)
        return collection.search_vector(vector, limit, conditions, words=words, space=self._space(text, vector))

    def _space(self, text: str, vector: list[float]) -> str | None:
        return query_space(self._collection, text, vector) if self._check_vectors else None

    def _conditions(self, query: VectorStoreQuery) -> Filter:
        """Return the filter of all conditions of the query."""
        # an empty list means any node: VectorIndexRetriever passes it
        named = {"id": query.node_ids, "doc_id": query.doc_ids}
        return all_of([as_filter(query.filters), {key: list(wanted) for key, wanted in named.items() if wanted}])

    def _selected(self, node_ids: list[str] | None, filters: AnyFilters | None) -> list[str]:
        if filters is None:
            return self._collection.find() if node_ids is None else node_ids
        if node_ids is None:
            return self._collection.find(as_filter(filters))
        there = set(self._collection.find(all_of([as_filter(filters), {"id": node_ids}]))) if node_ids else set()
        return [key for key in node_ids if key in there]


def _mode(query: VectorStoreQuery) -> VectorStoreQueryMode:
    """Return the mode; a hybrid query with alpha 0 or 1 searches by words or by vectors alone."""
    check_choice(query.mode.value, [mode.value for mode in _MODES], "query mode")
    if query.mode not in _HYBRID or query.alpha is None or query.alpha == 0.5:
        return query.mode
    if query.alpha in (0, 1):
        return VectorStoreQueryMode.DEFAULT if query.alpha else VectorStoreQueryMode.SPARSE
    raise ConfigurationError(
        f"alpha {query.alpha!r}: hybrid search weighs vectors and words by itself; only 0 (words), 1 (vectors) and 0.5 "
        "are possible"
    )


def _encoder(embed_model: BaseEmbedding) -> Encoder | ExternalEncoder:
    if isinstance(embed_model, TwinvecEmbedding):
        return embed_model.encoder
    return ExternalEncoder(
        f"{embed_model.class_name()}:{embed_model.model_name}",
        lambda texts: [embed_model.get_query_embedding(text) for text in texts],
        embed_model.get_text_embedding_batch,
    )
