"""TwinvecVectorStore: a twinvec collection in Qdrant as a LangChain vector store.

Documents are stored whole, one point each, under any id, and are returned with their metadata unchanged. LangChain runs
the blocking methods in a worker thread for the async ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore

from langchain_twinvec.embeddings import TwinvecEmbeddings
from twinvec import Document as Stored
from twinvec import Encoder, Hit
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.adapters.metadata import plain_metadata
from twinvec.adapters.origins import origin_of
from twinvec.errors import ConfigurationError, DocumentError
from twinvec.retrieval.base import Mode
from twinvec.retrieval.filters import Filter
from twinvec.support.checks import refuse_unknown
from twinvec_qdrant import (
    ClusterSettings,
    Collection,
    Failure,
    ingest_all,
    open_whole_documents,
    understood_filter,
    with_documents,
)

if TYPE_CHECKING:
    from qdrant_client import QdrantClient, models

    AnyFilter = Filter | models.Filter


class TwinvecVectorStore(VectorStore):
    """A collection as a vector store.

        store = TwinvecVectorStore(TwinvecEmbeddings(), collection_name="handbook", path="./.twinvec")
        store.add_documents([Document("Holidays are requested two weeks ahead.", id="leave")])
        store.similarity_search("How do I get time off?", k=1)

    Args:
        embedding: Any LangChain embeddings. The collection records the model of ``TwinvecEmbeddings``, and of others a
            digest of the vectors of a few probe texts.
        collection_name: Name of the collection, which is created if it does not exist.
        path: Folder of the embedded store.
        url: Address of a Qdrant server.
        client: An open ``QdrantClient``. Without path, url and client, the collection is in memory.
        api_key: Key for ``url`` (default: the environment variable ``QDRANT_API_KEY``).
        mode: How text queries search: by vectors ("dense"), words ("sparse", BM25), or both ("hybrid").
        collection: An open collection without chunking, instead of the arguments before; ``embedding`` is then only
            the property ``embeddings``.
        grpc: Speak gRPC with the server at ``url``, at its port ``grpc_port``, instead of REST.
        grpc_port: See ``grpc``.
        cluster: How a server keeps the collection (``twinvec_qdrant.ClusterSettings``).
        payload_indexes: Indexes of metadata keys for filters, as for ``Collection.open`` (default: every key gets one).

    Raises:
        ConfigurationError: arguments contradict one another or the collection.
        SpaceMismatchError: the collection belongs to other embeddings; nothing was read or written.
        StoreError: the store is busy, unreachable or damaged.
    """

    def __init__(
        self,
        embedding: Embeddings | None = None,
        collection_name: str = "langchain",
        *,
        path: str | Path | None = None,
        url: str | None = None,
        client: QdrantClient | None = None,
        api_key: str | None = None,
        mode: Mode = "dense",
        collection: Collection | None = None,
        grpc: bool = False,
        grpc_port: int = 6334,
        cluster: ClusterSettings | None = None,
        payload_indexes: Mapping[str, str | Literal[False]] | Literal[False] | None = None,
    ) -> None:
        if embedding is None and collection is None:
            raise ConfigurationError("a vector store needs embeddings, or an open collection")
        self._embedding = embedding
        self._mode: Mode = mode
        self.collection = open_whole_documents(
            collection_name,
            encoder=None if embedding is None else _encoder(embedding),
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
        """The collection behind the store."""

    @property
    def embeddings(self) -> Embeddings | None:
        """The store's embeddings."""
        return self._embedding

    def close(self) -> None:
        """Close the collection; a second call does nothing."""
        self.collection.close()

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        **kwargs: Any,
    ) -> Self:
        """Open a store with the arguments of the class and add texts."""
        store = cls(embedding, **kwargs)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Add texts, or replace the texts with the same ids; an unchanged text is not encoded again.

        Args:
            texts: The texts; the last text of an id is kept.
            metadatas: One for each text. Dates, sets and other values that JSON lacks are kept as
                ``twinvec.adapters.metadata`` describes.
            ids: One for each text (default, and for None: a random id).

        Returns:
            One id for each text.

        Raises:
            DocumentError: texts were refused, named by id and reason; the others were stored.
            ConfigurationError: the numbers of texts, metadatas and ids differ, or an argument is unknown.
        """
        kwargs.pop("batch_size", None)  # index() passes it, and has already split the texts by it
        refuse_unknown(kwargs)
        texts = list(texts)
        metadatas = [{} for _ in texts] if metadatas is None else metadatas
        keys = [str(uuid4()) if key is None else key for key in (ids or [None] * len(texts))]
        if not len(texts) == len(metadatas) == len(keys):
            raise ConfigurationError(f"{len(texts)} texts, {len(metadatas)} metadatas and {len(keys)} ids")
        # by repr: an id of a wrong type may not be hashable, and is refused by name later
        named = {
            repr(key): _stored(key, text, metadata) for key, text, metadata in zip(keys, texts, metadatas, strict=True)
        }
        ingest_all(self.collection, [*named.values()], f"{len(texts)} texts")
        return keys

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in this order, without missing ones."""
        return [_document(stored) for stored in self.collection.get(ids)]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete the documents with these ids, or all documents of all tenants if ``ids`` is None; skip unknown ids."""
        refuse_unknown(kwargs)
        self.collection.delete(self.collection.find() if ids is None else ids)
        return True

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        mode: Mode | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return the ``k`` best documents, best first. A blank query finds nothing.

        Args:
            query: The query.
            k: Largest number of documents.
            filter: Conditions on the metadata, as in ``twinvec.retrieval.filters``:
                ``{"lang": "en", "year": {"gte": 2020}}``, or a ``qdrant_client.models.Filter``.
            mode: Mode of this search (default: the store's).
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, mode, **kwargs)]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        mode: Mode | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """``similarity_search`` with the score of the last stage, which is the cosine in mode "dense"."""
        refuse_unknown(kwargs)
        return [(document, hit.score) for document, hit in self._found(query, k, filter, mode)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: AnyFilter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: AnyFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_by_vector`` with cosines."""
        refuse_unknown(kwargs)
        hits = self.collection.search_vector(embedding, k, understood_filter(filter), space=origin_of(embedding))
        return [(document, hit.score) for document, hit in self._with_documents(hits)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """Return ``k`` documents that are near to the query and differ from each other.

        Args:
            query: As for ``similarity_search``, like ``k`` and ``filter``.
            fetch_k: Number of nearest documents to choose from.
            lambda_mult: Weight of relevance against difference, from 0 to 1.
        """
        refuse_unknown(kwargs)
        hits = self.collection.search_diverse(
            query, k, understood_filter(filter), candidates=fetch_k, diversity=1 - lambda_mult
        )
        return [document for document, _ in self._with_documents(hits)]

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """``max_marginal_relevance_search`` by a vector."""
        refuse_unknown(kwargs)
        hits = self.collection.search_diverse(
            embedding,
            k,
            understood_filter(filter),
            candidates=fetch_k,
            diversity=1 - lambda_mult,
            space=origin_of(embedding),
        )
        return [document for document, _ in self._with_documents(hits)]

    async def amax_marginal_relevance_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
        """``max_marginal_relevance_search``, awaitable."""
        return await run_in_executor(None, self.max_marginal_relevance_search, query, *args, **kwargs)

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], *args: Any, **kwargs: Any
    ) -> list[Document]:
        """``max_marginal_relevance_search_by_vector``, awaitable."""
        return await run_in_executor(None, self.max_marginal_relevance_search_by_vector, embedding, *args, **kwargs)

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return cosines mapped to 0 to 1 in every mode, because fused scores and BM25 scores have no fixed range."""
        conditions, mode = kwargs.pop("filter", None), kwargs.pop("mode", None)
        refuse_unknown(kwargs)
        if (mode or self._mode) == "sparse":
            raise ConfigurationError("relevance scores are cosines: search by vectors, or both ('dense', 'hybrid')")
        found = self._found(query, k, conditions, mode)
        return [(document, (1 + min(1.0, max(-1.0, hit.scores["dense"]))) / 2) for document, hit in found]

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return await run_in_executor(None, self._similarity_search_with_relevance_scores, query, k, **kwargs)

    def _found(self, query: str, k: int, filter: AnyFilter | None, mode: Mode | None) -> list[tuple[Document, Hit]]:
        return self._with_documents(self.collection.search(query, k, mode or self._mode, understood_filter(filter)))

    def _with_documents(self, hits: Sequence[Hit]) -> list[tuple[Document, Hit]]:
        return [(_document(stored), hit) for stored, hit in with_documents(self.collection, hits)]


def _encoder(embedding: Embeddings) -> Encoder | ExternalEncoder:
    if isinstance(embedding, TwinvecEmbeddings) and embedding.encoder is not None:
        return embedding.encoder
    model = getattr(embedding, "model_name", None) or getattr(embedding, "model", None)
    name = ":".join([type(embedding).__name__, *([model] if isinstance(model, str) else [])])
    return ExternalEncoder(
        name, lambda texts: [embedding.embed_query(text) for text in texts], embedding.embed_documents
    )


def _stored(key: str, text: str, metadata: Mapping[str, Any] | None) -> Stored | Failure:
    """Return the document to store, or why its metadata cannot be kept."""
    try:
        return Stored(key, text, payload=plain_metadata(key, metadata or {}))
    except DocumentError as error:
        return Failure(str(key), str(error))


def _document(stored: Stored) -> Document:
    return Document(page_content=stored.text, metadata=dict(stored.payload), id=stored.id)
