"""A collection: documents of one model's space in a Qdrant store, filled and searched.

This file joins the parts: where the points live (``backends``), whether the encoder belongs there (``opening``,
``description``), how documents come in (``ingest``, ``catalog``), how they are found (``search``), read back
(``stored_documents``) and kept in order (``maintenance``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError, ConfigurationError, StoreError
from twinvec.retrieval.base import Hit, Mode, SpaceEncoder, check_limit
from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters import Filter
from twinvec.text import check_text, check_texts
from twinvec_qdrant.async_methods import awaitable
from twinvec_qdrant.encoders import token_encoder
from twinvec_qdrant.ingest.ingestion import Ingestion
from twinvec_qdrant.maintained import Maintained
from twinvec_qdrant.opening import RequestedSettings, load_recorded, open_in
from twinvec_qdrant.opening_store import find_store
from twinvec_qdrant.records.bm25_weights import Lexicon
from twinvec_qdrant.records.catalog import Catalog
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.documents import StoredDocuments
from twinvec_qdrant.records.notes import Notes
from twinvec_qdrant.records.overview import overview
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.search.request import SearchRequest
from twinvec_qdrant.search.searcher import Searcher
from twinvec_qdrant.settings import ChunkSettings, IndexSettings
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

    from twinvec.rerankers.maxsim import MaxSimReranker


class Collection(Maintained):
    """An open collection; made by ``open``, closed by ``close`` or at the end of a ``with`` block.

    Searches may run in several threads, beside an ingest; a search finds each source in its last committed version.
    """

    def __init__(self, name: str, backend: Backend, description: Description, encoder: SpaceEncoder | None) -> None:
        self.name = name
        self._backend = backend
        self._location = backend.location
        self._description = description
        self._encoder = encoder
        self._loading = threading.Lock()
        self._settings = ChunkSettings.from_dict(description.chunking)
        self._catalog = Catalog(backend)
        self._documents = StoredDocuments(self._catalog)
        self._lexicon = Lexicon(backend, description)
        self._searcher = Searcher(self._catalog, self._lexicon, description)
        self._closed = False

    @classmethod
    def open(
        cls,
        name: str,
        path: str | Path | None = None,
        *,
        url: str | None = None,
        client: QdrantClient | None = None,
        encoder: SpaceEncoder | None = None,
        chunking: ChunkSettings | Literal[False] | None = None,
        index: IndexSettings | None = None,
        tenant_key: str | None = None,
        late_interaction: bool | None = None,
        create: bool = True,
        language: str = "english",
        api_key: str | None = None,
        wait_seconds: float = 10.0,
    ) -> Collection:
        """Open a collection, or make it.

        Args:
            name: Its name in the store.
            path: Folder of the embedded store; ``./.twinvec`` where neither this nor ``url`` nor ``client`` is given.
            url: Address of a Qdrant server.
            client: A ``QdrantClient`` of the caller's; it stays open.
            encoder: A ``twinvec.Encoder`` or anything like it (``SpaceEncoder``). Unless given, the model that the
                collection was made with, loaded when first needed; ``Encoder("default")`` for a new one.
            chunking: How documents are cut; False for not at all. Unless given, as the collection has it.
            index: How vectors are indexed and searched approximately; unless given, as the collection has it.
            tenant_key: The key of payloads that says whose a document is, of a new collection of many tenants: every
                document then has to name its tenant, and every search, in its filter.
            late_interaction: Keep the token states of every chunk, which ``maxsim`` then need not compute, in a new
                collection: two bytes a number, for the default model 768 a token.
            create: Make the collection where there is none.
            language: Snowball language of the stemmer for BM25, of a new collection.
            api_key: For ``url``; unless given the environment's ``QDRANT_API_KEY``, or what the file holds that its
                ``QDRANT_API_KEY_FILE`` names.
            wait_seconds: How long to wait for another process that has the embedded store, or to repeat requests to a
                server that cannot be reached or is busy. A single request may take 60 seconds.

        Raises:
            CollectionNotFoundError: there is none, and ``create`` is False.
            SpaceMismatchError: the collection was made with another model, or the encoder's vectors have changed;
                nothing was read from it or written to it.
            ConfigurationError: arguments that contradict one another or the collection.
            StoreBusyError: another process has the embedded store.
            StoreUnavailableError: the server does not answer, or the folder cannot be written.
            StoreCorruptError: what the store holds cannot be read.
        """
        if chunking is False:
            chunking = ChunkSettings(enabled=False)
        store = find_store(name, path, url, client, api_key, wait_seconds)
        wanted = RequestedSettings(encoder, chunking, index, tenant_key, language, late_interaction)
        return cls(name, *open_in(store, name, wanted, create=create))

    def __repr__(self) -> str:
        return f"Collection({self.name!r}, at {self._location!r}, model={self._description.model!r})"

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        if not self._closed:
            self._closed = True
            backend = self._backend
            self._backend = self._catalog = self._documents = self._searcher = cast(Any, _Closed(self._location))
            backend.close()

    @property
    def encoder(self) -> SpaceEncoder:
        """The encoder; the collection's own model is loaded and checked at the first call.

        Raises:
            ModelError: the recorded model cannot be loaded.
            SpaceMismatchError: it is not what it was.
        """
        with self._loading:
            if self._encoder is None:
                self._encoder = load_recorded(self._description, self._backend.location)
            return self._encoder

    def ingest(
        self,
        documents: Iterable[object],
        *,
        vectors: Mapping[str, Sequence[float]] | None = None,
        prune: bool = False,
        allow_empty: bool = False,
        dry_run: bool = False,
        progress: bool = False,
        report: IngestReport | None = None,
    ) -> IngestReport:
        """Take documents in: new and changed ones are written, unchanged ones cost nothing.

        A document that is refused or cannot be encoded fails by itself; its older version stays. Killed at any
        moment, the collection holds every source in its old or its new version, and the next call goes on.

        Args:
            documents: Anything that ``twinvec.retrieval.documents.as_document`` takes, or a ``Failure`` of
                ``read_source``; read once.
            vectors: Vectors of the collection's space for documents that are embedded already, by id; only where
                chunking is off and no token states are kept.
            prune: Remove the sources that are not among the documents. Nothing is removed when a failure may hide
                documents.
            allow_empty: Let ``prune`` remove everything where no documents come at all; an error unless given.
            dry_run: Encode and write nothing; the report says what would be done.
            progress: Show a progress bar on a terminal.
            report: Where to count; the same comes back. What was done is in it also where the ingest ends with an
                error.

        Raises:
            DocumentError: ``documents`` is no iterable, or is empty and would prune everything.
            SpaceMismatchError: the collection has been migrated to another model since it was opened.
            BadVectorError: one of ``vectors`` is not finite, is zero, or of another size; nothing was written.
            StoreError: the store failed; what was committed stays.
            EngineError: the encoder failed altogether.
        """
        if vectors and self._settings.enabled:
            raise ConfigurationError("vectors of whole documents, but the collection cuts documents into chunks")
        if vectors and self._description.states_dim is not None:
            raise ConfigurationError("vectors without token states, which the collection keeps too: leave them out")
        given = {source: self._checked(vector, f"document {source!r}: ") for source, vector in (vectors or {}).items()}
        report = IngestReport() if report is None else report
        ingestion = Ingestion(self._catalog, self._lexicon, self._description, self.encoder, given, report)
        return ingestion.run(documents, prune=prune, allow_empty=allow_empty, dry_run=dry_run, progress=progress)

    def search(
        self,
        query: str,
        limit: int = 10,
        mode: Mode = "hybrid",
        filter: Filter | None = None,
        group: bool = True,
        *,
        offset: int = 0,
        weights: tuple[float, float] = (1.0, 1.0),
    ) -> list[Hit]:
        """At most ``limit`` hits, best first.

        Args:
            query: A blank one finds nothing.
            limit: How many.
            mode: By vectors ("dense"), by words ("sparse", BM25), or both fused ("hybrid").
            filter: On the documents' payloads; see ``twinvec.retrieval.filters``.
            group: The best chunk of each source, with the source's id; without it, chunks, with ids like "source#3".
            offset: How many of the best to leave out: the hits of the pages before.
            weights: Of vectors and of words, where they are fused.

        Raises:
            TextError: the query is refused by the input gate.
            FilterError: the filter has no meaning, or names no tenant where there are many.
            ConfigurationError: an unknown mode, a limit below 1, an offset below 0, or weights that are no two numbers
                from 0.
        """
        request = SearchRequest(limit, mode, filter, group, offset, weights)
        return self._search([check_text(query, "query")], request)[0]

    def search_many(
        self,
        queries: Sequence[str],
        limit: int = 10,
        mode: Mode = "hybrid",
        filter: Filter | None = None,
        group: bool = True,
        *,
        offset: int = 0,
        weights: tuple[float, float] = (1.0, 1.0),
    ) -> list[list[Hit]]:
        """``search`` for many queries at once; errors name a query by its index."""
        return self._search(check_texts(queries), SearchRequest(limit, mode, filter, group, offset, weights))

    def search_vector(
        self,
        vector: Sequence[float] | FloatArray,
        limit: int = 10,
        filter: Filter | None = None,
        group: bool = True,
        *,
        words: str | None = None,
        offset: int = 0,
        exact: bool = False,
    ) -> list[Hit]:
        """``search`` by a vector of the collection's space, shape (dim,); by both, fused, where ``words`` come with it.

        ``exact`` compares with every stored vector, index or not: what an index is measured against.

        Raises:
            BadVectorError: the vector is not finite, is zero, or of another size.
            TextError: the words are refused by the input gate.
        """
        request = SearchRequest(limit, filter=filter, group=group, offset=offset, exact=exact)
        checked_words = None if words is None else check_text(words, "words")
        return self._searcher.search_vector(self._checked(vector), checked_words, request)

    def search_diverse(
        self,
        query: str | Sequence[float] | FloatArray,
        limit: int = 10,
        filter: Filter | None = None,
        *,
        candidates: int = 50,
        diversity: float = 0.5,
    ) -> list[Hit]:
        """Chunks by maximal marginal relevance: each is chosen for its cosine with the query, less its likeness to
        those before it (Carbonell and Goldstein 1998).

        Args:
            query: A text or a vector.
            limit: How many.
            filter: As for ``search``.
            candidates: How many of the nearest chunks to choose from.
            diversity: From 0, relevance alone, to 1, difference alone.
        """
        if isinstance(query, str):
            check_text(query, "query")
            if not query.strip():
                return []
            vector_D = self._checked(np.asarray(self.encoder.encode_query([query]), dtype=np.float32)[0])
        else:
            vector_D = self._checked(query)
        check_limit(limit)
        check_limit(candidates, "candidates")
        request = SearchRequest(max(limit, candidates), filter=filter, group=False)
        return self._searcher.diverse(vector_D, request, limit, diversity)

    def maxsim(self, *, mix: float = 0.4) -> MaxSimReranker:
        """Late interaction over this collection's hits, for ``RetrieveRerank(collection, collection.maxsim())``.

        A collection that was made with ``late_interaction`` compares the token states that it keeps, and gives the
        scores of ``MaxSimReranker`` but for their rounding; for any other they are computed from the hits' texts.

        Args:
            mix: As for ``MaxSimReranker``.

        Raises:
            ConfigurationError: the encoder has no token states, or ``mix`` lies outside 0 to 1.
        """
        from twinvec.rerankers.maxsim import MaxSimReranker
        from twinvec_qdrant.search.maxsim import StoredMaxSim

        encoder = token_encoder(self.encoder)
        if self._description.states_dim is None:
            return MaxSimReranker(encoder, mix=mix)
        return StoredMaxSim(self._backend, self._description.vector, encoder, mix=mix)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """The documents with these ids, in their order, those missing left out.

        The text is what was embedded: the chunks of a document that was cut, joined by blank lines. Of many tenants'
        documents, those of all are found.

        Raises:
            TextError: ``ids`` is a single string, or one of them is none or holds a lone surrogate.
        """
        return self._documents.get(check_texts(ids, name="id"))

    def find(self, filter: Filter | None = None) -> list[str]:
        """The ids of all documents that satisfy the filter, in no meaningful order; it need not name a tenant.

        Raises:
            FilterError: the filter has no meaning.
        """
        return self._documents.find(filter)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove the documents with these ids, whatever tenant's; how many there were.

        Raises:
            TextError: as for ``get``; nothing was removed.
        """
        ids = list(dict.fromkeys(check_texts(ids, name="id")))
        with self._backend.writing:
            self._lexicon.refresh()
            removed = 0
            for record in self._catalog.remove(ids):
                self._lexicon.changed(record, None)
                removed += 1
            if removed:
                self._lexicon.rebalance()
            return removed

    def notes(self, namespace: str) -> Notes:
        """Small records that belong to the collection and lie in it; see ``Notes``.

        Raises:
            TextError: the namespace is no text, or holds a lone surrogate.
        """
        return Notes(self._backend, check_text(namespace, "namespace"))

    def count(self) -> int:
        """How many chunks there are."""
        return self._backend.count([field_is("kind", "chunk")])

    def info(self) -> dict[str, Any]:
        """What the collection holds and what it was made with; loads no model."""
        return overview(self.name, self._backend)

    aingest = awaitable(ingest)
    asearch = awaitable(search)
    asearch_many = awaitable(search_many)
    asearch_vector = awaitable(search_vector)
    asearch_diverse = awaitable(search_diverse)
    aget = awaitable(get)
    afind = awaitable(find)
    adelete = awaitable(delete)

    def _search(self, queries: Sequence[str], request: SearchRequest) -> list[list[Hit]]:
        encoder = self.encoder if request.mode != "sparse" else None
        return self._searcher.search_texts(encoder, queries, request)

    def _checked(self, vector: Sequence[float] | FloatArray, where: str = "") -> FloatArray:
        try:
            vector_D = np.asarray(vector, dtype=np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadVectorError(f"{where}expected {self._description.dim} numbers: {error}") from None
        norm = np.linalg.norm(vector_D)
        if vector_D.shape != (self._description.dim,) or not np.isfinite(norm) or norm == 0:
            raise BadVectorError(
                f"{where}a vector of shape {vector_D.shape} and length {norm:g}; expected "
                f"({self._description.dim},), finite and not zero"
            )
        return vector_D


class _Closed:
    """Stands for the store of a closed collection."""

    def __init__(self, location: str) -> None:
        self.location = location

    def __getattr__(self, name: str) -> Any:
        raise StoreError(f"{self.location}: the collection has been closed; open it again")
