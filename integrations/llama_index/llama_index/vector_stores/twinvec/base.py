"""TwinvecVectorStore: a twinvec collection in Qdrant as a LlamaIndex vector store.

Nodes are stored whole, one point each, under any id. Async methods run the blocking methods in a worker thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)

from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec.filters import as_filter
from llama_index.vector_stores.twinvec.nodes import NO_DOCUMENT, checked_nodes, node_of, stored
from twinvec import Document, Encoder, Hit
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import MAX_LIMIT, Mode, check_limit
from twinvec.retrieval.filters import Filter, matches_all, parse_filter
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import check_choice, check_flags, integer, mapping, number, string
from twinvec.text import is_list
from twinvec_qdrant import (
    ClusterSettings,
    Collection,
    Failure,
    IndexSettings,
    all_of,
    exact_search,
    filtered,
    ingest_all,
    joined_options,
    open_whole_documents,
    payload_index_types,
    query_space,
    refuse_foreign,
    stored_ids,
    takes_foreign,
    text_ids,
    vector_space,
    with_documents,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

    from llama_index.vector_stores.twinvec.filters import AnyFilters

    PayloadTypes = Mapping[str, str | Literal[False]] | Literal[False]

_CLOSED = "the store, which ends the call, and open it again"
_SPARSE = (VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.TEXT_SEARCH)
_HYBRID = (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.SEMANTIC_HYBRID)
_MMR_CANDIDATES = 50
_NO_TEXT = (
    "it has an embedding but no text, and a collection keeps vectors of texts only: give the node a text, such as the "
    "caption of an image, or leave the node out"
)
_MODES = (VectorStoreQueryMode.DEFAULT, *_SPARSE, *_HYBRID, VectorStoreQueryMode.MMR)


class TwinvecVectorStore(BasePydanticVectorStore):
    """A collection as a vector store.

        store = TwinvecVectorStore(embed_model, collection_name="handbook", path="./.twinvec")
        index = VectorStoreIndex.from_vector_store(store, embed_model=embed_model)

    Query modes: default (vectors), sparse and text_search (BM25), hybrid and semantic_hybrid (both, fused), mmr.

    The arguments of LlamaIndex's ``QdrantVectorStore`` are supported too, with the same meaning, or refused by an error
    that names the argument to use.

    Args:
        embed_model: The LlamaIndex embedding of the index (default: the collection's model). The collection records the
            model of a ``TwinvecEmbedding``; for other embeddings, it records a digest of the vectors of a few probe
            texts.
        collection_name: Name of the collection.
        path: Folder of the embedded store.
        url: Address of a Qdrant server.
        client: An open ``QdrantClient``. Without path, url and client, the collection is in memory.
        api_key: Key for ``url`` (default: the environment variable ``QDRANT_API_KEY``).
        collection: An open collection without chunking, instead of the other arguments.
        grpc: This and the arguments up to ``async_client`` are those of ``Collection.open``.
        payload_indexes: Indexes of metadata keys for filters (default: every key gets one).
        check_vectors: Check that the vectors of queries and nodes come from the collection's model. For a
            ``TwinvecEmbedding``, the check costs nothing; for other embeddings, the collection's model embeds the text
            again. False skips the check, for example for a hosted model, or if a query has the vector of another text.
        enable_hybrid: False refuses hybrid queries.
        qdrant: Arguments of ``QdrantVectorStore``: aclient, shard_number, replication_factor, ...

    Raises:
        ConfigurationError: arguments contradict one another or the collection, or cannot be honoured.
        CollectionNotFoundError: the collection does not exist, and ``create`` is False.
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
    _enable_hybrid: bool = PrivateAttr()

    @takes_foreign(BaseEmbedding, "a LlamaIndex embedding")
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
        payload_indexes: PayloadTypes | Sequence[Mapping[str, Any]] | None = None,
        create: bool = True,
        tenant_key: str | None = None,
        language: str = "english",
        index: IndexSettings | None = None,
        wait_seconds: float = 10.0,
        late_interaction: bool | None = None,
        async_client: AsyncQdrantClient | None = None,
        check_vectors: bool = True,
        enable_hybrid: bool = True,
        qdrant: Mapping[str, Any] | None = None,
    ) -> None:
        ours = {
            "path": path,
            "url": url,
            "client": client,
            "api_key": api_key,
            "collection": collection,
            "grpc": grpc,
            "grpc_port": grpc_port,
            "cluster": cluster,
            "wait_seconds": wait_seconds,
            "async_client": async_client,
        }
        check_flags(check_vectors=check_vectors, enable_hybrid=enable_hybrid)
        options = joined_options(ours, qdrant or {})
        opened = open_whole_documents(
            collection_name,
            encoder=None if embed_model is None else _encoder(embed_model),
            payload_indexes=payload_index_types(payload_indexes),
            create=create,
            tenant_key=tenant_key,
            language=language,
            index=index,
            late_interaction=late_interaction,
            **options,
        )
        settings: dict[str, Any] = {"collection_name": opened.name, "path": path and str(path), "url": options["url"]}
        super().__init__(**settings)
        self._collection = opened
        self._check_vectors = check_vectors
        self._enable_hybrid = enable_hybrid

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised settings."""
        return "TwinvecVectorStore"

    @classmethod
    def from_dict(cls, data: dict[str, Any], **kwargs: Any) -> TwinvecVectorStore:
        """Open the collection that ``to_dict`` recorded, by path or url; ``api_key`` must be given again.

        Raises:
            ConfigurationError: neither path nor url is recorded, because the collection was in memory or used a client.
        """
        name = string(mapping(data, "data").get("collection_name", ""), "collection_name")
        place = {key: value for key in ("path", "url") if (value := data.get(key)) is not None}
        if not place and not kwargs.keys() & {"client", "collection", "path", "url"}:
            raise ConfigurationError(f"collection {name!r} was in memory or used a client: give client or collection")
        return cls(collection_name=name, **place, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the settings of ``to_dict``; unpickling opens the collection again, with the collection's model.

        The API key is not pickled; unpickling takes it from the environment variable ``QDRANT_API_KEY``.

        Raises:
            ConfigurationError: the collection was in memory, or was opened by client or collection.
        """
        if self.path is None and self.url is None:
            raise ConfigurationError(
                f"the store of the collection {self.collection_name!r} cannot be pickled or copied deeply, because its "
                "collection is in memory, or was given as client or collection: give path or url"
            )
        settings = {"check_vectors": self._check_vectors, "enable_hybrid": self._enable_hybrid}
        return _reopened, (type(self), self.to_dict(), settings)

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a store that has opened the collection again, as unpickling does; raise as pickling does."""
        reopen, arguments = self.__reduce__()
        copied: Self = reopen(*arguments)
        return copied

    @property
    def client(self) -> Collection:
        """The collection that holds the nodes."""
        return self._collection

    def close(self) -> None:
        """Close the collection; a second call does nothing."""
        self._collection.close()

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """Add nodes, or replace the nodes with the same ids; an unchanged node is not encoded again.

        The collection's model embeds a node without an embedding. The last node of an id is kept. No search finds a
        node without text.

        Returns:
            The ids of the nodes.

        Raises:
            SpaceMismatchError: another model embedded a node; nothing was written.
            BadVectorError: an embedding is not finite, is zero, or has another size; nothing was written.
            DocumentError: some nodes were refused; the error names their positions (from 0), ids and reasons. The
                others were stored, and adding the same nodes again stores none twice. A node with an embedding but
                without text is refused, unless the embedding comes from a ``TwinvecEmbedding``. Or ``nodes`` is not a
                list of nodes; then nothing was stored.
        """
        refuse_foreign(kwargs)
        listed = checked_nodes(nodes)
        keys = [node.node_id for node in listed]
        latest = {key: index for index, key in enumerate(keys)}
        vectors = {key: vector for key, index in latest.items() if (vector := listed[index].embedding) is not None}
        documents = {f"node {index}": self._stored(listed[index]) for index in latest.values()}
        ingest_all(self._collection, documents, f"{len(latest)} nodes", vectors, check=self._check_vectors)
        return keys

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        refuse_foreign(delete_kwargs)
        keys = self._collection.find({"ref_doc_id": string(ref_doc_id, "ref_doc_id")})
        if ref_doc_id == NO_DOCUMENT:
            keys = [each.id for each in self._collection.get(keys) if node_of(each).ref_doc_id == ref_doc_id]
        self._collection.delete(keys)

    def get_nodes(
        self,
        node_ids: list[str] | None = None,
        filters: AnyFilters | None = None,
        *,
        limit: int | None = None,
        shard_identifier: Any = None,
    ) -> list[BaseNode]:
        """Return the nodes with these ids that satisfy the filters; all nodes if neither is given.

        Args:
            node_ids: Ids of nodes; ids that no node has are skipped.
            filters: Conditions on the metadata, as for ``query``.
            limit: Largest number of nodes, from 0; default: all.

        Raises:
            ConfigurationError: ``limit`` is not a whole number, or is below 0.
            FilterError: the filter is not supported.
        """
        refuse_foreign({"shard_identifier": shard_identifier})
        limit = None if limit is None else integer(limit, "limit", 0)
        keys = self._selected(node_ids, filters)
        if not node_ids:
            keys = keys[:limit]  # cut before texts are read: each of these keys has a document
        return [node_of(document) for document in self._collection.get(keys)][:limit]

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: AnyFilters | None = None, **delete_kwargs: Any
    ) -> None:
        """Delete the nodes with these ids that satisfy the filters.

        Raises:
            ConfigurationError: no ids are given, and every node satisfies the filters; ``clear`` deletes all nodes.
        """
        refuse_foreign(delete_kwargs)
        if node_ids is None and (filters is None or matches_all(parse_filter(as_filter(filters)))):
            raise ConfigurationError(
                "give node_ids, or filters with a condition that not every node satisfies; clear() deletes all nodes"
            )
        self._collection.delete(self._selected(node_ids, filters))

    def clear(self) -> None:
        """Delete all nodes, of all tenants."""
        self._collection.delete(self._collection.find())

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Return the best nodes, best first.

        Args:
            query: The query; the collection's model embeds a query without an embedding. A query with neither text nor
                embedding finds the nodes that satisfy its filters, in the order of their ids and with similarity 0;
                without filters it finds nothing. Without text, an embedding of zeros counts as no embedding, and so
                does any embedding of a text that is only white space.
            kwargs: ``mmr_threshold``: weight of relevance against difference in mode mmr, from 0 to 1 (default: 0.5).
                ``mmr_prefetch_k``: number of candidates in mode mmr; or ``mmr_prefetch_factor``, a multiple of the
                limit. ``qdrant_filters``: a ``qdrant_client.models.Filter`` instead of all conditions of the query.
                ``search_params={"exact": True}``: compare every vector.

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

    # types ignored: mypy warns that a keyword argument could be called "self"
    async_add = awaitable(add, writes=_CLOSED)  # type: ignore[arg-type]
    adelete = awaitable(delete, writes=_CLOSED)  # type: ignore[arg-type]
    aget_nodes = awaitable(get_nodes)
    adelete_nodes = awaitable(delete_nodes, writes=_CLOSED)  # type: ignore[arg-type]
    aclear = awaitable(clear, writes=_CLOSED)
    aquery = awaitable(query)  # type: ignore[arg-type]

    def _stored(self, node: BaseNode) -> Document | Failure:
        """Return the document that stores a node, or a Failure if the node is refused.

        A ``TwinvecEmbedding``'s vector of an empty text has no meaning, so such a node is stored without its vector.
        """
        document, vector = stored(node), node.embedding
        if isinstance(document, Failure) or vector is None or document.text.strip():
            return document
        if vector_space(self._collection, vector) is not None:
            return document
        return Failure(node.node_id, _NO_TEXT)

    def _search(
        self,
        query: VectorStoreQuery,
        *,
        mmr_threshold: float | None = None,
        mmr_prefetch_factor: float | None = None,
        mmr_prefetch_k: int | None = None,
        qdrant_filters: object = None,
        search_params: Any = None,
        **others: Any,
    ) -> list[Hit]:
        refuse_foreign(others)
        _check_query(query)
        mode, exact = self._mode(query), exact_search(search_params)
        limit = _limit(query)
        conditions = self._conditions(query) if qdrant_filters is None else as_filter(qdrant_filters)
        if _is_blank(query):
            # this search finds nothing, but checks that the conditions name a tenant
            self._collection.search("", limit, "sparse", conditions, passages=False)
            return filtered(self._collection, conditions, limit)
        if mode in _SPARSE:
            return self._collection.search(query.query_str or "", limit, "sparse", conditions, passages=False)
        if mode is VectorStoreQueryMode.MMR:
            wanted = query.mmr_threshold if mmr_threshold is None else mmr_threshold
            relevance = 0.5 if wanted is None else number(wanted, "mmr_threshold", 0, 1)
            return self._diverse(query, conditions, _candidates(limit, mmr_prefetch_factor, mmr_prefetch_k), relevance)
        return self._nearest(query, limit, mode in _HYBRID, conditions, exact=exact)

    def _diverse(self, query: VectorStoreQuery, conditions: Filter, candidates: int, relevance: float) -> list[Hit]:
        text, vector = query.query_str or "", query.query_embedding
        return self._collection.search_diverse(
            text if vector is None else vector,
            query.similarity_top_k,
            conditions,
            candidates=candidates,
            diversity=1 - relevance,
            space=None if vector is None else self._space(text, vector),
        )

    def _nearest(
        self, query: VectorStoreQuery, limit: int, hybrid: bool, conditions: Filter, *, exact: bool
    ) -> list[Hit]:
        text, vector = query.query_str or "", query.query_embedding
        alpha = 0.5 if query.alpha is None else query.alpha
        weights = (2 * alpha, 2 * (1 - alpha)) if hybrid else (1.0, 1.0)
        if vector is None:
            mode: Mode = "hybrid" if hybrid else "dense"
            return self._collection.search(text, limit, mode, conditions, weights=weights, passages=False, exact=exact)
        words, space = text if hybrid else None, self._space(text, vector)
        return self._collection.search_vector(
            vector, limit, conditions, words=words, space=space, exact=exact, weights=weights, passages=False
        )

    def _space(self, text: str, vector: list[float]) -> str | None:
        return query_space(self._collection, text, vector) if self._check_vectors else None

    def _mode(self, query: VectorStoreQuery) -> VectorStoreQueryMode:
        """Return the mode; a hybrid query with alpha 0 or 1 searches by words or by vectors alone."""
        check_choice(str(getattr(query.mode, "value", query.mode)), [mode.value for mode in _MODES], "query mode")
        mode = VectorStoreQueryMode(query.mode)  # the mode may be a string
        if mode not in _HYBRID:
            return mode
        if not self._enable_hybrid:
            raise ConfigurationError(
                "the store was opened with enable_hybrid=False, which refuses hybrid queries: open it without this "
                "argument"
            )
        if query.alpha is None:
            return mode
        if not 0 <= number(query.alpha, "alpha") <= 1:
            raise ConfigurationError(f"alpha must be from 0 (words) to 1 (vectors), got {query.alpha!r}")
        if query.alpha in (0, 1):
            return VectorStoreQueryMode.DEFAULT if query.alpha else VectorStoreQueryMode.SPARSE
        return mode

    def _conditions(self, query: VectorStoreQuery) -> Filter:
        # an empty list, which VectorIndexRetriever passes, means any node
        named = {"id": query.node_ids, "doc_id": query.doc_ids}
        return all_of([as_filter(query.filters), {key: list(wanted) for key, wanted in named.items() if wanted}])

    def _selected(self, node_ids: list[str] | None, filters: AnyFilters | None) -> list[str]:
        node_ids = None if node_ids is None else stored_ids(self._collection, text_ids(node_ids, "node_ids"))
        if filters is None:
            return self._collection.find() if node_ids is None else node_ids
        if node_ids is None:
            return self._collection.find(as_filter(filters))
        there = set(self._collection.find(all_of([as_filter(filters), {"id": node_ids}]))) if node_ids else set()
        return [key for key in node_ids if key in there]


def _reopened(kind: type[TwinvecVectorStore], data: dict[str, Any], settings: dict[str, Any]) -> TwinvecVectorStore:
    return kind.from_dict(data, **settings)


def _check_query(query: object) -> None:
    """Raise ConfigurationError unless a query is a ``VectorStoreQuery`` whose text and ids have the right types."""
    if not isinstance(query, VectorStoreQuery):
        raise ConfigurationError(f"query: expected VectorStoreQuery(...), got {query!r}")
    if query.query_str is not None:
        string(query.query_str, "query_str")
    for name, ids in (("node_ids", query.node_ids), ("doc_ids", query.doc_ids)):
        if ids is not None and not is_list(ids):
            raise ConfigurationError(f"{name}: expected a list of ids, got {ids!r}")


def _is_blank(query: VectorStoreQuery) -> bool:
    """Return whether a query has neither text nor a vector.

    An embedding of zeros counts as no vector, and so does the embedding of a text that is only white space.
    """
    text, vector = query.query_str or "", query.query_embedding
    return not text.strip() and (bool(text) or vector is None or not np.any(vector))


def _candidates(limit: int, factor: float | None, count: int | None) -> int:
    """Return the number of candidates of maximal marginal relevance; ``count`` takes precedence over ``factor``."""
    if count is not None:
        check_limit(count, "mmr_prefetch_k")
        return count
    if factor is None:
        return max(limit, _MMR_CANDIDATES)
    return max(limit, round(limit * number(factor, "mmr_prefetch_factor", 0, MAX_LIMIT)))


def _limit(query: VectorStoreQuery) -> int:
    """Return the number of nodes to find.

    It is ``sparse_top_k`` in a sparse mode and ``hybrid_top_k`` in a hybrid mode, if given, else ``similarity_top_k``.
    """
    check_limit(query.similarity_top_k, "similarity_top_k")
    for name, modes in (("hybrid_top_k", _HYBRID), ("sparse_top_k", _SPARSE)):
        limit = getattr(query, name)
        if limit and query.mode in modes:
            check_limit(limit, name)
            return int(limit)
    return query.similarity_top_k


def _encoder(embed_model: BaseEmbedding) -> Encoder | ExternalEncoder:
    if isinstance(embed_model, TwinvecEmbedding):
        return embed_model.encoder
    return ExternalEncoder(
        f"{embed_model.class_name()}:{embed_model.model_name}",
        lambda texts: [embed_model.get_query_embedding(text) for text in texts],
        embed_model.get_text_embedding_batch,
    )
