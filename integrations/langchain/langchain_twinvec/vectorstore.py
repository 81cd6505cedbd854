"""TwinvecVectorStore: a twinvec collection in Qdrant as a LangChain vector store.

Documents are stored whole, one point each, under any id, and are returned with their metadata unchanged. LangChain's
async methods run the blocking methods in a worker thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore

from langchain_twinvec.documents import check_documents, storable, stored_document
from langchain_twinvec.retriever import StoreRetriever
from langchain_twinvec.store_arguments import encoder_of, search_mode, with_name
from langchain_twinvec.store_searches import by_text, by_vector, check_threshold, diverse, relevance_of
from twinvec.errors import ConfigurationError, TextError
from twinvec.retrieval.base import Mode
from twinvec.retrieval.filters import matches_all, parse_filter
from twinvec.text import is_list
from twinvec_qdrant import (
    NOTHING,
    ClusterSettings,
    Collection,
    IndexSettings,
    all_of,
    ingest_all,
    joined_options,
    open_whole_documents,
    payload_index_types,
    refuse_foreign,
    stored_ids,
    takes_foreign,
    text_ids,
    understood_filter,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

    from langchain_twinvec.store_searches import AnyFilter


class TwinvecVectorStore(VectorStore):
    """A collection as a vector store.

        store = TwinvecVectorStore(TwinvecEmbeddings(), collection_name="handbook", path="./.twinvec")
        store.add_documents([Document("Holidays are requested two weeks ahead.", id="leave")])
        store.similarity_search("How do I get time off?", k=1)

    The arguments and methods of LangChain's ``QdrantVectorStore`` are supported too, with the same meaning, or refused
    by an error that names the argument to use.

    Args:
        embedding: Any LangChain embeddings (default: the recorded model of an existing collection). The collection
            records the model of ``TwinvecEmbeddings``; for other embeddings, it records a digest of the vectors of a
            few probe texts.
        collection_name: Name of the collection.
        path: Folder of the embedded store.
        url: Address of a Qdrant server.
        client: An open ``QdrantClient``. Without path, url and client, the collection is in memory.
        api_key: Key for ``url`` (default: the environment variable ``QDRANT_API_KEY``).
        mode: How text queries search: by vectors ("dense"), words ("sparse", BM25), or both ("hybrid");
            ``retrieval_mode`` is another name for it.
        collection: An open collection without chunking, instead of the other arguments; ``embedding`` then only sets
            the property ``embeddings``.
        grpc: This and the arguments up to ``async_client`` are those of ``Collection.open``.
        payload_indexes: Indexes of metadata keys for filters (default: every key gets one).
        qdrant: Arguments of ``QdrantVectorStore``: location, host, port, prefer_grpc, timeout,
            force_recreate, ...

    Raises:
        ConfigurationError: arguments contradict one another or the collection, or cannot be honoured.
        CollectionNotFoundError: the collection does not exist, and ``create`` is False.
        SpaceMismatchError: the collection belongs to other embeddings; nothing was read or written.
        StoreError: the store is busy, unreachable or damaged.
    """

    @takes_foreign(Embeddings, "LangChain embeddings")
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
        create: bool = True,
        tenant_key: str | None = None,
        language: str = "english",
        index: IndexSettings | None = None,
        wait_seconds: float = 10.0,
        late_interaction: bool | None = None,
        async_client: AsyncQdrantClient | None = None,
        qdrant: Mapping[str, Any] | None = None,
    ) -> None:
        others = dict(qdrant or {})
        checked_mode = search_mode(mode, others.pop("retrieval_mode", None))
        if embedding is None and collection is None and create:
            raise ConfigurationError(
                "a vector store needs embeddings, or an open collection; give create=False to search an existing "
                "collection with its own model"
            )
        options = {
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
        self.collection = open_whole_documents(
            collection_name,
            encoder=None if embedding is None else encoder_of(embedding),
            payload_indexes=payload_index_types(payload_indexes),
            create=create,
            tenant_key=tenant_key,
            language=language,
            index=index,
            late_interaction=late_interaction,
            **joined_options(options, others),
        )
        """The collection behind the store."""
        # set after the collection, so that pickling fails there: its error explains why a store cannot be pickled
        self._embedding = embedding
        self._client = client
        self._mode: Mode = checked_mode

    @property
    def collection_name(self) -> str:
        """The collection's name."""
        return self.collection.name

    @property
    def retrieval_mode(self) -> Mode:
        """How text queries search: ``mode``."""
        return self._mode

    @property
    def client(self) -> QdrantClient:
        """The ``QdrantClient`` that the store was given.

        Raises:
            ConfigurationError: the store was opened without a client; use ``collection`` instead.
        """
        if self._client is None:
            raise ConfigurationError("the store was opened without a client: use .collection, or give client=...")
        return self._client

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
        """Open a store with the arguments of the class and add texts; the store is closed again if that fails."""
        store = cls(embedding, **with_name(kwargs))
        with ExitStack() as opened:
            if kwargs.get("collection") is None:
                opened.enter_context(store.collection)
            store.add_texts(texts, metadatas, ids=ids)
            opened.pop_all()
        return store

    @classmethod
    def from_documents(cls, documents: list[Document], embedding: Embeddings, **kwargs: Any) -> Self:
        """``from_texts`` for documents; errors are those of ``add_documents``."""
        return super().from_documents(check_documents(documents), embedding, **kwargs)

    @classmethod
    async def afrom_documents(cls, documents: list[Document], embedding: Embeddings, **kwargs: Any) -> Self:
        """``from_documents``, awaitable."""
        return await super().afrom_documents(check_documents(documents), embedding, **kwargs)

    @classmethod
    def from_existing_collection(cls, collection_name: str, embedding: Embeddings | None = None, **kwargs: Any) -> Self:
        """Open a store on a collection that exists, with the arguments of the class.

        Raises:
            CollectionNotFoundError: the collection does not exist.
        """
        return cls(embedding, collection_name, **{"create": False, **kwargs})

    @classmethod
    def construct_instance(
        cls,
        embedding: Embeddings | None = None,
        *,
        client_options: dict[str, Any] | None = None,
        collection_name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Open a store with the arguments of the class; ``client_options`` name the store's path or url."""
        return cls(embedding, **with_name({**(client_options or {}), **kwargs, "collection_name": collection_name}))

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
            metadatas: Metadata of each text. Dates, sets and other values that JSON lacks are kept as
                ``twinvec.adapters.metadata`` describes.
            ids: Id of each text (default, and for None: a random id). The whole number 7 is stored as "7". A UUID
                without dashes means the document with the same UUID, if there is one and has dashes.

        Returns:
            One id for each text.

        Raises:
            DocumentError: some texts were refused; the error names their positions (from 0), ids and reasons. The
                others were stored if all have ids. Otherwise no text without an id was stored, so that the call can be
                repeated without storing a text twice. The same holds after an error of the embeddings or the store; if
                the store is gone, a note of its error (``__notes__``) names the ids that may be stored.
            TextError: the texts or ids are one text, not a list.
            ConfigurationError: the numbers of texts, metadatas and ids differ, or an argument is unknown.
        """
        refuse_foreign(kwargs)
        if not is_list(texts):
            raise TextError(f"expected a list of texts, got {type(texts).__name__}")
        texts = list(texts)
        if metadatas is not None and not is_list(metadatas):
            raise ConfigurationError(f"metadatas: expected a list of mappings, got {type(metadatas).__name__}")
        metadatas = [{} for _ in texts] if metadatas is None else list(metadatas)
        wanted: list[str | None] = [None] * len(texts) if ids is None else text_ids(ids)
        keys = [str(uuid4()) if key is None else key for key in stored_ids(self.collection, wanted)]
        for name, given in (("metadatas", len(metadatas)), ("ids", len(keys))):
            if given != len(texts):
                raise ConfigurationError(f"{name} must have one item for each of the {len(texts)} texts, got {given}")
        # keys are compared by repr, because an id of a wrong type, which is refused later, may not be hashable
        latest = {repr(key): index for index, key in enumerate(keys)}
        documents = {
            f"text {index}": storable(keys[index], texts[index], metadatas[index]) for index in latest.values()
        }
        made = {key for key, given in zip(keys, wanted, strict=True) if given is None}
        ingest_all(self.collection, documents, f"{len(texts)} texts", unknown_ids=made)
        return keys

    def add_documents(self, documents: list[Document], **kwargs: Any) -> list[str]:
        """``add_texts`` for documents, with their metadata and ids; the argument ``ids`` replaces the documents' ids.

        Raises:
            DocumentError: as for ``add_texts``; or ``documents`` is not a list of documents, and nothing was stored.
        """
        return super().add_documents(check_documents(documents), **kwargs)

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, in this order; ids without a document are skipped."""
        return [stored_document(stored) for stored in self.collection.get(self._ids(ids))]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Delete documents; unknown ids are skipped.

        Args:
            ids: Ids of the documents; None means any.
            kwargs: ``filter``, conditions on the metadata, as for ``similarity_search``. Without ids and filter, all
                documents of all tenants are deleted.

        Raises:
            TextError: the ids are one text, not a list.
            ConfigurationError: every document satisfies the filter, and no ids are given.
        """
        conditions = understood_filter(kwargs.pop("filter", None))
        refuse_foreign(kwargs)
        if ids is None and conditions is not None and matches_all(parse_filter(conditions)):
            raise ConfigurationError(
                "every document satisfies the filter; to delete all documents, call delete() without a filter"
            )
        keys = None if ids is None else self._ids(ids)
        if conditions is not None and keys is not None:
            conditions = all_of([conditions, {"id": keys}]) if keys else NOTHING
        self.collection.delete(self.collection.find(conditions) if conditions or keys is None else keys)
        return True

    def similarity_search(
        self, query: str, k: int = 4, filter: AnyFilter | None = None, mode: Mode | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` best documents, best first.

        A blank query finds the documents that satisfy the filter, in the order of their ids and with score 0; without a
        filter it finds nothing.

        Args:
            query: The query.
            k: Largest number of documents.
            filter: Conditions on the metadata, as in ``twinvec.retrieval.filters``:
                ``{"lang": "en", "year": {"gte": 2020}}``, or a ``qdrant_client.models.Filter``.
            mode: Mode of this search (default: the store's).
            kwargs: ``offset``, the number of best documents to skip; ``score_threshold``, the least score of a
                document; ``weights`` of vectors and words in mode "hybrid";
                ``search_params=models.SearchParams(exact=True)``, to compare every vector in mode "dense".
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, mode, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: AnyFilter | None = None, mode: Mode | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search`` with the score of the last stage, which is the cosine in mode "dense"."""
        found = by_text(self.collection, query, k, filter, mode or self._mode, **kwargs)
        return [(document, hit.score) for document, hit in found]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: AnyFilter | None = None, **kwargs: Any
    ) -> list[Document]:
        """Return the ``k`` documents nearest to a vector of the collection's model.

        A vector that ``TwinvecEmbeddings`` of another model gave in this process is refused. Of other vectors, only the
        size is checked. ``kwargs`` are as for ``similarity_search``.
        """
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: AnyFilter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_by_vector`` with cosines."""
        found = by_vector(self.collection, embedding, k, filter, **kwargs)
        return [(document, hit.score) for document, hit in found]

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
            kwargs: ``score_threshold``, the least cosine of a document.
        """
        return [found for found, _ in diverse(self.collection, query, k, fetch_k, lambda_mult, filter, **kwargs)]

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
        return [found for found, _ in diverse(self.collection, embedding, k, fetch_k, lambda_mult, filter, **kwargs)]

    def max_marginal_relevance_search_with_score_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
        **kwargs: Any,
    ) -> list[tuple[Document, float]]:
        """``max_marginal_relevance_search_by_vector`` with cosines."""
        return diverse(self.collection, embedding, k, fetch_k, lambda_mult, filter, **kwargs)

    async def amax_marginal_relevance_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
        """``max_marginal_relevance_search``, awaitable."""
        return await run_in_executor(None, self.max_marginal_relevance_search, query, *args, **kwargs)

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], *args: Any, **kwargs: Any
    ) -> list[Document]:
        """``max_marginal_relevance_search_by_vector``, awaitable."""
        return await run_in_executor(None, self.max_marginal_relevance_search_by_vector, embedding, *args, **kwargs)

    def similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search`` with the relevance of each document; ``score_threshold`` is the least relevance."""
        check_threshold(kwargs.get("score_threshold"))
        return super().similarity_search_with_relevance_scores(query, k, **kwargs)

    async def asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_with_relevance_scores``, awaitable."""
        check_threshold(kwargs.get("score_threshold"))
        return await super().asimilarity_search_with_relevance_scores(query, k, **kwargs)

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return hits with their relevance, or with cosines mapped to 0 to 1 if the collection is not calibrated."""
        mode = kwargs.pop("mode", None) or self._mode
        kwargs.pop("score_threshold", None)  # LangChain itself compares the results with the threshold
        found = by_text(self.collection, query, k, kwargs.pop("filter", None), mode, **kwargs)
        return [(document, relevance_of(hit)) for document, hit in found]

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        return await run_in_executor(None, self._similarity_search_with_relevance_scores, query, k, **kwargs)

    def _ids(self, ids: Sequence[Any]) -> list[Any]:
        return stored_ids(self.collection, text_ids(ids))

    def as_retriever(self, **kwargs: Any) -> StoreRetriever:
        """Return a retriever; the ``filter`` of a call is added to that of its ``search_kwargs``.

        Args:
            **kwargs: As for LangChain's ``VectorStore.as_retriever``: ``search_type``, ``search_kwargs``, ``tags``.
        """
        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return StoreRetriever(vectorstore=self, tags=tags, **kwargs)
