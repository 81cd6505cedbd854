"""TwinvecVectorStore: a twinvec collection in Qdrant as a LangChain vector store.

Documents are stored as they come, one point each, under any id, and come back as they were: nothing of ours is in
their metadata. The collection belongs to the vectors that filled it and refuses others. Async methods run the
blocking ones in a worker thread, as LangChain does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.runnables import run_in_executor
from langchain_core.vectorstores import VectorStore

from langchain_twinvec.embeddings import TwinvecEmbeddings
from twinvec import Document as Stored
from twinvec import Encoder, Hit
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Mode
from twinvec.retrieval.filters import Filter
from twinvec.support.checks import refuse_unknown
from twinvec_qdrant import Collection, ingest_all, open_whole_documents

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


class TwinvecVectorStore(VectorStore):
    """A collection as a vector store.

        store = TwinvecVectorStore(TwinvecEmbeddings(), collection_name="handbook", path="./.twinvec")
        store.add_documents([Document("Holidays are requested two weeks ahead.", id="leave")])
        store.similarity_search("How do I get time off?", k=1)

    Args:
        embedding: Any LangChain embeddings. For ``TwinvecEmbeddings`` the collection records the model itself; for
            others a digest of the vectors of a few probe texts.
        collection_name: Name of the collection; it is made where there is none.
        path: Folder of the embedded store.
        url: Address of a Qdrant server.
        client: An open ``QdrantClient``. With none of the three, the collection lives in memory.
        api_key: For ``url``; the environment's ``QDRANT_API_KEY`` unless given.
        mode: How text queries search: by vectors ("dense"), words ("sparse", BM25), or both ("hybrid").
        collection: An open collection without chunking, in place of the arguments before; ``embedding`` then only
            serves ``embeddings``.

    Raises:
        ConfigurationError: arguments that contradict one another or the collection.
        SpaceMismatchError: the collection belongs to other embeddings; nothing was read or written.
        StoreError: the store is busy, not there, or damaged.
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
        )
        """The collection behind the store."""

    @property
    def embeddings(self) -> Embeddings | None:
        """The embeddings that the store was made with."""
        return self._embedding

    def close(self) -> None:
        """Let go of the collection; a second call does nothing."""
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
        """Open a store with the arguments of the class, and add texts."""
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
        """Add texts, or replace those under the same ids; what is there already costs nothing.

        Args:
            texts: The texts; of those under one id, the last is kept.
            metadatas: One for each text, of plain JSON values.
            ids: One for each text; a random one where there is none.

        Returns:
            The ids, one a text.

        Raises:
            DocumentError: texts that were refused, by id and reason; the others were stored.
            ConfigurationError: not as many metadatas or ids as texts, or an unknown argument.
        """
        kwargs.pop("batch_size", None)  # from index(): how many it hands over, which is what comes
        refuse_unknown(kwargs)
        texts = list(texts)
        metadatas = [{} for _ in texts] if metadatas is None else metadatas
        keys = [str(uuid4()) if key is None else key for key in (ids or [None] * len(texts))]
        if not len(texts) == len(metadatas) == len(keys):
            raise ConfigurationError(f"{len(texts)} texts, {len(metadatas)} metadatas and {len(keys)} ids")
        # an id of a wrong type is refused by name, not hashed
        named = {
            repr(key): Stored(key, text, payload=data) for key, text, data in zip(keys, texts, metadatas, strict=True)
        }
        ingest_all(self.collection, named.values(), f"{len(texts)} texts")
        return keys

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The documents under these ids, in their order, those missing left out."""
        return [_document(stored) for stored in self.collection.get(ids)]

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Remove the documents under these ids, or all of them; ids that are not there are passed over."""
        refuse_unknown(kwargs)
        if ids is None:
            self.collection.ingest([], prune=True, allow_empty=True)
        else:
            self.collection.delete(ids)
        return True

    def similarity_search(
        self, query: str, k: int = 4, filter: Filter | None = None, mode: Mode | None = None, **kwargs: Any
    ) -> list[Document]:
        """The ``k`` best documents, best first.

        Args:
            query: A blank one finds nothing.
            k: How many.
            filter: Conditions on the metadata, as in ``twinvec.retrieval.filters``:
                ``{"lang": "en", "year": {"gte": 2020}}``.
            mode: In place of the store's own.
        """
        return [document for document, _ in self.similarity_search_with_score(query, k, filter, mode, **kwargs)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Filter | None = None, mode: Mode | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search`` with the score of the last stage: the cosine, for "dense"."""
        refuse_unknown(kwargs)
        return [(document, hit.score) for document, hit in self._found(query, k, filter, mode)]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[Document]:
        """The ``k`` documents nearest to a vector."""
        return [document for document, _ in self.similarity_search_with_score_by_vector(embedding, k, filter, **kwargs)]

    def similarity_search_with_score_by_vector(
        self, embedding: list[float], k: int = 4, filter: Filter | None = None, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """``similarity_search_by_vector`` with cosines."""
        refuse_unknown(kwargs)
        hits = self.collection.search_vector(embedding, k, filter)
        return [(document, hit.score) for document, hit in self._with_documents(hits)]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """``k`` of the ``fetch_k`` nearest documents, chosen to be near to the query and different from each other.

        Args:
            query: A blank one finds nothing.
            k: How many.
            fetch_k: How many to choose from.
            lambda_mult: From 0, difference alone, to 1, relevance alone.
            filter: As for ``similarity_search``.
        """
        return self._diverse(query, k, fetch_k, lambda_mult, filter, kwargs)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: Filter | None = None,
        **kwargs: Any,
    ) -> list[Document]:
        """``max_marginal_relevance_search`` by a vector."""
        return self._diverse(embedding, k, fetch_k, lambda_mult, filter, kwargs)

    async def amax_marginal_relevance_search(self, query: str, *args: Any, **kwargs: Any) -> list[Document]:
        """``max_marginal_relevance_search``, awaited."""
        return await run_in_executor(None, self.max_marginal_relevance_search, query, *args, **kwargs)

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], *args: Any, **kwargs: Any
    ) -> list[Document]:
        """``max_marginal_relevance_search_by_vector``, awaited."""
        return await run_in_executor(None, self.max_marginal_relevance_search_by_vector, embedding, *args, **kwargs)

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Cosines mapped to 0 to 1, in every mode: fused and BM25 scores have no scale that a threshold could use."""
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

    def _found(self, query: str, k: int, filter: Filter | None, mode: Mode | None) -> list[tuple[Document, Hit]]:
        return self._with_documents(self.collection.search(query, k, mode or self._mode, filter))

    def _diverse(
        self,
        query: str | list[float],
        k: int,
        fetch_k: int,
        lambda_mult: float,
        filter: Filter | None,
        others: dict[str, Any],
    ) -> list[Document]:
        refuse_unknown(others)
        hits = self.collection.search_diverse(query, k, filter, candidates=fetch_k, diversity=1 - lambda_mult)
        return [document for document, _ in self._with_documents(hits)]

    def _with_documents(self, hits: Sequence[Hit]) -> list[tuple[Document, Hit]]:
        """Each hit with its document as it was added: a hit's own payload has fields of the collection beside it."""
        stored = {document.id: document for document in self.collection.get([hit.id for hit in hits])}
        return [(_document(stored[hit.id]), hit) for hit in hits if hit.id in stored]


def _encoder(embedding: Embeddings) -> Encoder | ExternalEncoder:
    if isinstance(embedding, TwinvecEmbeddings) and embedding.encoder is not None:
        return embedding.encoder
    model = getattr(embedding, "model_name", None) or getattr(embedding, "model", None)
    name = ":".join([type(embedding).__name__, *([model] if isinstance(model, str) else [])])
    return ExternalEncoder(
        name, lambda texts: [embedding.embed_query(text) for text in texts], embedding.embed_documents
    )


def _document(stored: Stored) -> Document:
    return Document(page_content=stored.text, metadata=dict(stored.payload), id=stored.id)
