"""A collection: documents in the vector space of one model, in a Qdrant store.

``Collection`` is the public interface. The work is done by ``opening``, ``ingest``, ``search``, ``records`` (which
reads documents back) and ``maintenance``. A backend of ``stores`` holds the points.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, TypeVar, cast

from twinvec.arrays import FloatArray
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError, StoreError, StoreFullError
from twinvec.rerankers.maxsim import MaxSimReranker
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import Hit, Mode, SpaceEncoder, check_hits, check_limit
from twinvec.retrieval.documents import Document, as_id, check_ids
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.phrasings import Phrasings
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import as_list, check_choice, check_flags, check_methods, check_settings, integer, string
from twinvec.text import check_text, check_texts
from twinvec_qdrant.async_methods import awaiting, streaming
from twinvec_qdrant.calibration.measuring import is_due, try_to_calibrate
from twinvec_qdrant.encoders import check_encoder, token_encoder
from twinvec_qdrant.ingest.cutting.code import checked_chunking
from twinvec_qdrant.ingest.helped import Helpers, Part, PartIngestion, PartReport, led_ingestion
from twinvec_qdrant.ingest.ingestion import Ingestion
from twinvec_qdrant.ingest.pace import Pace
from twinvec_qdrant.ingest.registration import registered
from twinvec_qdrant.maintenance.migration import Migration, OnProgress, drop_others, finish_switch
from twinvec_qdrant.maintenance.push import push
from twinvec_qdrant.maintenance.reindex import reindex
from twinvec_qdrant.maintenance.verification import verify
from twinvec_qdrant.opening import RequestedSettings, load_space_encoder, open_in
from twinvec_qdrant.opening_store import GRPC_PORT, AsyncQdrantClient, QdrantClient, StorePlace, find_store
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description, stored_description
from twinvec_qdrant.records.documents import (
    DocumentEntry,
    StoredChunk,
    find_documents,
    fitting,
    listed_documents,
    sampled_chunks,
    stored_documents,
)
from twinvec_qdrant.records.notes import Notes
from twinvec_qdrant.records.overview import overview
from twinvec_qdrant.records.roots import Membership, Roots
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.report import (
    IndexReport,
    IngestReport,
    MigrationReport,
    PushReport,
    VerifyReport,
    all_failed,
    failed_warning,
)
from twinvec_qdrant.search.nearest_ids import nearest_ids
from twinvec_qdrant.search.request import SearchRequest
from twinvec_qdrant.search.searcher import check_diversity
from twinvec_qdrant.served_model import Serving
from twinvec_qdrant.settings import ChunkSettings, ClusterSettings, IndexSettings, PayloadIndexes
from twinvec_qdrant.stored_roots import StoredRoot
from twinvec_qdrant.stores.base import Backend, closed_error
from twinvec_qdrant.stores.steps import Steps

logger = logging.getLogger(__name__)

T = TypeVar("T")

EncoderOrName = SpaceEncoder | str
"""An encoder for ``Collection.open``, or the name of its model."""

_CLOSED = "the collection, which ends the call, and open it again"  # completes docstrings: "before a retry, close ..."


class Collection:
    """An open collection: ``open`` opens it; ``close``, or the end of a ``with`` block, closes it.

    Several threads may search while another ingests; a search finds each document in its last committed version.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        description: Description,
        encoder: SpaceEncoder | None,
        weights: BM25Weights | None = None,
        *,
        precision: Precision = "auto",
        candidate: bool = False,
    ) -> None:
        self.name = name
        self._backend = backend
        self._location = backend.location
        self._owns_backend = not candidate
        self._catalog = Catalog(backend, weights or BM25Weights(backend, description))
        self._serving = Serving(self._catalog, description, encoder, precision=precision, follows=not candidate)
        self._calibrating = threading.Lock()
        self._model = ""  # set when the collection is closed, for ``repr``
        # the encoder and the pace that ``write_part`` keeps between calls
        self._pace: tuple[SpaceEncoder, Pace] | None = None

    @classmethod
    def open(
        cls,
        name: str,
        path: str | Path | None = None,
        *,
        url: str | None = None,
        client: QdrantClient | None = None,
        encoder: EncoderOrName | None = None,
        chunking: ChunkSettings | Literal[False] | None = None,
        index: IndexSettings | None = None,
        tenant_key: str | None = None,
        late_interaction: bool | None = None,
        create: bool = True,
        language: str = "english",
        api_key: str | None = None,
        wait_seconds: float = 10.0,
        async_client: AsyncQdrantClient | None = None,
        grpc: bool = False,
        grpc_port: int = GRPC_PORT,
        cluster: ClusterSettings | None = None,
        payload_indexes: Mapping[str, str | Literal[False]] | Literal[False] | None = None,
        repair: bool = False,
        precision: Precision = "auto",
    ) -> Collection:
        """Open a collection; create it if it does not exist.

        Args:
            name: Name of the collection in the store.
            path: Folder of the embedded store; default: ``./.twinvec``, if ``url`` and ``client`` are None too.
            url: Address of a Qdrant server.
            client: A ``QdrantClient`` of the caller, which stays open.
            encoder: A ``twinvec.Encoder``, the name of its model ("default"), or another ``SpaceEncoder``. Default: the
                recorded model, loaded at its first use; for a new collection ``Encoder("default")``.
            chunking: How to cut documents into chunks, or False to keep them whole; default: the collection's setting.
            index: How to index vectors and search approximately; default: the collection's setting.
            tenant_key: For a new collection of many tenants, the payload key that names a document's tenant. Every
                document and the filter of every search must then name a tenant.
            late_interaction: For a new collection, whether to store the token states of every chunk for ``maxsim``: two
                bytes a number, 768 bytes a token with the default model.
            create: Whether to create the collection if it does not exist.
            language: For a new collection, the Snowball language of BM25's stemmer. With "english", an existing
                collection keeps its own language.
            api_key: Key for ``url``; default: the environment variable ``QDRANT_API_KEY``, or the content of the file
                that ``QDRANT_API_KEY_FILE`` names.
            wait_seconds: Longest wait: for another process that uses the embedded store, or for a server's answer to
                one request, with all its retries. A server gets at least a second.
            grpc: Speak gRPC with the server at ``url``, at its port ``grpc_port``, instead of REST.
            grpc_port: See ``grpc``.
            cluster: How a server keeps the collection; default: the collection's settings, or for a new collection the
                server's. Of an existing collection, only ``read_consistency`` may differ from its settings.
            async_client: An ``AsyncQdrantClient`` of the caller for the awaitable searches, which stays open; the other
                store arguments may be left out. Default: a client made for ``url``, or worker threads for ``client``.
            payload_indexes: For a new collection, the types of indexes of payload keys: "keyword", "float", "bool",
                "integer", "datetime", "text", "geo", "uuid", or False for none. Any other key gets an index when a
                document first has it, unless ``"*"`` is False in the mapping, or the argument is False. An index makes
                filters fast, and never changes what they find. Default: the collection's setting.
            repair: Save the readable parts of an embedded collection if its files are damaged. Call
                ``verify(repair=True)`` next: until then, the collection only opens with ``repair``.
            precision: Number format in which the model computes, if ``encoder`` is None or a name; see ``Encoder``.

        Raises:
            CollectionNotFoundError: the collection does not exist, and ``create`` is False.
            SpaceMismatchError: the collection has another model, or the encoder's vectors have changed; nothing
                was written.
            ConfigurationError: arguments contradict one another or the collection.
            StoreBusyError: another process keeps using the embedded store.
            StoreUnavailableError: the server does not answer, or the folder cannot be written.
            StoreCorruptError: the store's files are damaged; the message says what to do.
        """
        chunking = checked_chunking(chunking)
        check_settings(index, IndexSettings, "index")
        check_settings(cluster, ClusterSettings, "cluster")
        check_flags(create=create, late_interaction=False if late_interaction is None else late_interaction)
        check_choice(precision, Precision, "precision")
        if isinstance(encoder, str):
            encoder = load_space_encoder(encoder, precision=precision)
        elif encoder is not None:
            check_encoder(encoder, "an encoder, such as Encoder(...), or a model's name")
            if precision != "auto":
                raise ConfigurationError(f"precision is that of the encoder: Encoder(..., precision={precision!r})")
        place = StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port, async_client, repair)
        store = find_store(name, place)
        indexes = None if payload_indexes is None else PayloadIndexes.of(payload_indexes)
        wanted = RequestedSettings(
            encoder, chunking, index, tenant_key, language, late_interaction, cluster, indexes, precision
        )
        return cls(name, *open_in(store, name, wanted, create=create), precision=precision)

    def __repr__(self) -> str:
        model = self._model or self._serving.current.description.model
        return f"Collection({self.name!r}, at {self._location!r}, {model=}{', closed' if self._model else ''})"

    def __reduce__(self) -> NoReturn:
        raise ConfigurationError(
            f"{self!r} cannot be pickled or copied, because it holds an open store: pass the collection's name and its "
            "path or url, and open it again there"
        )

    def __enter__(self) -> Collection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except StoreError as failure:
            if error is None:
                raise
            error.add_note(f"and then: {failure}")  # the first error is raised, since it is the cause

    def close(self) -> None:
        """Close the collection and its store; a second call does nothing.

        A call that still runs in another thread ends with a StoreError, unless this process has opened the collection
        a second time; committed documents stay.
        """
        if not self._model:
            self._model = self._serving.current.description.model
            backend = self._backend
            self._backend = self._catalog = self._serving = cast(Any, _Closed(self._location))
            if self._owns_backend:
                backend.close()

    def check_open(self) -> None:
        """Raise StoreError if the collection has been closed."""
        if self._model:
            raise closed_error(self._location)

    @property
    def encoder(self) -> SpaceEncoder:
        """The encoder of the collection's model: the caller's, or else the recorded model, loaded at the first use.

        After a migration, the property is the new model's encoder once a search or an ingest has noticed the migration.

        Raises:
            ModelError: the recorded model cannot be loaded.
            SpaceMismatchError: the recorded model has changed.
        """
        return self._serving.encoder()

    @property
    def loaded_encoder(self) -> SpaceEncoder | None:
        """The encoder of the collection's model if it is loaded already, else None."""
        return self._serving.current.encoder

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
        allow_all_failed: bool = False,
        source: str | None = None,
        describe: Mapping[str, str] | None = None,
        helpers: Helpers | None = None,
    ) -> IngestReport:
        """Ingest documents: encode and write new and changed documents; skip unchanged ones.

        If a document is refused or cannot be encoded, its older version stays, and all other documents are ingested.
        If the process is killed, every document has its old or its new version, and the next call continues.

        Texts without ids get their positions in this call as ids: "0", "1" and so on. The texts of a second call then
        replace those of the first, and a warning is logged. If you ingest in several calls, give ids.

        Args:
            documents: Anything that ``twinvec.retrieval.documents.as_document`` accepts, or a ``Failure`` of
                ``read_source``; the iterable is read once. Or a ``Root``, which is recorded as a source.
            vectors: Vectors of the collection's space for documents that are embedded already, by id; only without
                chunking and without stored token states. A vector whose id no document has is logged as a warning.
            prune: Remove the other documents of the same source, unless they may be missing because reading failed.
            allow_empty: Let ``prune`` remove all documents if ``documents`` is empty (default: an error), and all
                documents of a folder that is empty now (default: if there are ten or more, they stay).
            dry_run: Report what would be done; encode and write nothing.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.
            report: Report to add the counts to, which is returned; it is complete even after an error. Without a
                report, a warning in the log says how many documents failed, and why the first one failed.
            allow_all_failed: Return the report even if every document failed; default: an error, except with
                ``dry_run``.
            source: Name of the documents' source. Document ids of the first source stay as they are. Document ids of
                any other source get the prefix "name:", so two sources may hold the same ids. Default: the name of the
                root's folder or file; documents without a root belong to the first source. The first named source
                takes over all documents that were ingested without a source, so ``prune`` then also removes those that
                are not in ``documents``; a warning says how many.
            describe: Your descriptions by path: of the whole source under "", of a folder under the folder's path.
            helpers: Other processes that parse the files of a ``Root`` and encode texts; with a server, they also write
                documents. See ``twinvec_ray``.

        Raises:
            DocumentError: ``documents`` is not an iterable, or is empty and ``prune`` would remove all documents, or in
                a collection of many tenants cannot know whose.
            IngestError: every document failed; its ``report`` says why.
            ConfigurationError: another source has this name, or no source has been named yet and ``prune`` would remove
                documents whose source is unknown.
            SpaceMismatchError: the collection was migrated to another model, before the call or during it, and the
                new model cannot be loaded or has another space than ``vectors``; committed documents stay.
            BadVectorError: one of ``vectors`` is not finite, is zero, or has another size; nothing was written.
            StoreError: the store failed; committed documents stay.
            EngineError: the encoder failed for all documents.
        """
        check_flags(
            prune=prune, allow_empty=allow_empty, dry_run=dry_run, progress=progress, allow_all_failed=allow_all_failed
        )
        if not isinstance(vectors, Mapping | None):
            raise ConfigurationError(f"vectors must map document ids to vectors, got {type(vectors).__name__}")
        if helpers is not None:
            check_methods(helpers, ("with_results",), "helpers", "helpers, as twinvec_ray has them")
        check_settings(report, IngestReport, "report")
        description, encoder = self._serving.refreshed(for_vectors=bool(vectors))
        if not dry_run:
            finish_switch(self._backend, description, lambda: encoder)
        has_report = report is not None  # a caller who gives a report reads the failures there
        report = IngestReport() if report is None else report
        documents, membership = registered(
            self._catalog,
            documents,
            source,
            {} if describe is None else describe,
            prune=prune,
            write=not dry_run,
            with_results=None if helpers is None else helpers.with_results,
        )
        given = {f"{membership.prefix}{each}": vector for each, vector in (vectors or {}).items()}
        if helpers is None:
            ingestion = Ingestion(self._catalog, description, encoder, given, report, self._after_switch)
        elif given:
            raise ConfigurationError("vectors cannot be used together with helpers: leave helpers out")
        else:
            ingestion = led_ingestion(self._catalog, description, encoder, report, self._after_switch, helpers)
        settle = nullcontext() if dry_run else self._settled_source(membership, report)
        with settle:
            ingestion.run(
                documents, membership, prune=prune, allow_empty=allow_empty, dry_run=dry_run, progress=progress
            )
        if report.all_failed and not (dry_run or allow_all_failed):
            raise all_failed(report)
        if report.failed and not has_report:
            logger.warning("%s: %s", self.name, failed_warning(report, would=dry_run))
        if report.chunks and not dry_run:
            if is_due(description, self._catalog.weights.chunks or 0):
                self._calibrate(only_if_due=True)
            # the first ingest of a collection records settings, so they are read again
            elif not description.average_length:
                self._serving.refresh_settings()
        return report

    def write_part(self, part: Part) -> PartReport:
        """Write a part of an ingest; the process that leads the ingest calls this through its ``Helpers``.

        Raises:
            SpaceMismatchError: the collection was migrated to a model that cannot be loaded.
            StoreError: the store failed; committed documents stay.
            EngineError: the encoder failed for all documents.
        """
        description, encoder = self._serving.refreshed()
        if self._pace is None or self._pace[0] is not encoder:
            self._pace = encoder, Pace(encoder)
        ingestion = PartIngestion(self._catalog, description, encoder, part, self._after_switch, self._pace[1])
        return ingestion.write()

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
        feedback: int = 0,
        words: str | Sequence[str] = (),
        answers: str | Sequence[str] = (),
        passages: bool = True,
        min_relevance: float | None = None,
        syntax: bool = False,
        exact: bool = False,
    ) -> list[Hit]:
        """Return the best hits for a text, best first.

        Args:
            query: The text; a blank text finds nothing. Misspelt words are corrected, unless the collection has many
                tenants.
            limit: Largest number of hits to return.
            mode: Compare vectors ("dense"), words ("sparse", BM25), or both and fuse them ("hybrid").
            filter: Conditions on the documents' payloads; see ``twinvec.retrieval.filters``.
            group: Return the best chunk of each document, with the document's id; False returns all chunks, with ids
                such as "guide.md#3".
            offset: Number of best hits to skip: the hits of the previous pages.
            weights: Weights of vectors and words in the fusion.
            feedback: Move the query's vector towards the vectors of this many first hits, and search again (Rocchio
                1971). This costs two more requests to a server. The score "dense" of a hit is still that of the
                original query; the score "feedback" is that of the moved vector.
            words: Further phrasings of the query in key words, for BM25; blank texts are ignored. The query weighs
                twice as much as the mean of these phrasings.
            answers: Made-up answers to the query, which are encoded as documents and compared by their vectors (HyDE,
                Gao et al. 2022). The query weighs twice as much as the mean of the answers.
            passages: Whether hits get the passage that answers the query; False saves about half a millisecond a hit.
            min_relevance: Leave out hits whose relevance is lower, from 0 to 1; see ``Hit``.
            syntax: Whether ``"exact phrase"`` must occur in a chunk, and ``-word`` must not; see
                ``twinvec.retrieval.syntax``. Default: all of the query is text.
            exact: Compare every stored vector instead of using the index.

        Raises:
            TextError: the query or a phrasing is not a string, holds a lone surrogate, or is too large; or with
                ``syntax``, the query has only words to exclude.
            FilterError: the filter is invalid, or names no tenant in a collection of many tenants.
            ConfigurationError: the mode, the limit, the offset, the weights, the feedback or the relevance are invalid.
        """
        request = SearchRequest(
            limit,
            mode,
            filter,
            group,
            offset,
            weights,
            passages=passages,
            feedback=feedback,
            min_relevance=min_relevance,
            syntax=syntax,
            exact=exact,
        )
        return self._run(self._first([check_text(query, "query")], request, Phrasings.of(words, answers)))

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
        passages: bool = True,
        feedback: int = 0,
        min_relevance: float | None = None,
        syntax: bool = False,
    ) -> list[list[Hit]]:
        """Search for many texts at once, as ``search`` does; errors give the index of the query."""
        request = SearchRequest(
            limit,
            mode,
            filter,
            group,
            offset,
            weights,
            passages=passages,
            feedback=feedback,
            min_relevance=min_relevance,
            syntax=syntax,
        )
        return self._run(self._serving.search_texts(check_texts(queries, name="query", argument="queries"), request))

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
        space: str | None = None,
        weights: tuple[float, float] = (1.0, 1.0),
        passages: bool = True,
    ) -> list[Hit]:
        """Search by a vector of the collection's space; arguments and errors not listed here are those of ``search``.

        Args:
            vector: Shape (dim,).
            words: Text whose BM25 scores are fused with the scores of the vector; its spelling is corrected.
            exact: Compare every stored vector instead of using the index, for example to measure the index's recall.
            space: Space of the vector (``encoder.space``); default: the space of the encoder given to ``open`` or
                ``migrate``, else of the collection's model. After a migration, vectors of the former model can still
                be searched until ``drop_others``.
            weights: Weights of the vector and the words in the fusion.
            passages: Whether hits get the passage that answers ``words``.

        Raises:
            BadVectorError: the vector is not finite, is zero, or has another size.
            SpaceMismatchError: the collection holds no vectors of the space.
        """
        request = SearchRequest(
            limit, filter=filter, group=group, offset=offset, weights=weights, exact=exact, passages=passages
        )
        words = None if words is None else check_text(words, "words")
        return self._run(self._serving.search_vector(vector, words, request, space))

    def search_diverse(
        self,
        query: str | Sequence[float] | FloatArray,
        limit: int = 10,
        filter: Filter | None = None,
        *,
        candidates: int = 50,
        diversity: float = 0.5,
        space: str | None = None,
    ) -> list[Hit]:
        """Return chunks by maximal marginal relevance (Carbonell and Goldstein 1998).

        Chunks are chosen one after another. A chunk's score is its cosine with the query, less its greatest cosine with
        the chunks chosen before. Arguments and errors not listed here are those of ``search``.

        Args:
            query: A text or a vector.
            candidates: Nearest chunks to choose from.
            diversity: Weight of diversity, from 0 (only the cosine with the query counts) to 1 (only diversity counts).
            space: Space of the vector; see ``search_vector``.
        """
        if isinstance(query, str):
            check_text(query, "query")
        check_limit(limit)
        check_limit(candidates, "candidates")
        check_diversity(diversity)
        request = SearchRequest(max(limit, candidates), filter=filter, group=False)
        return self._run(self._serving.search_diverse(query, request, limit, diversity, space))

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of a search with ``passages=False``, each with the passage that answers the query.

        Raises:
            TextError: see ``search``.
        """
        checked = check_hits(hits, "hits")
        return self._run(self._serving.with_passages(check_text(query, "query"), checked))

    def corrected(self, query: str) -> str:
        """Return a query as a search reads it: misspelt words are replaced by similar words of the collection.

        Raises:
            TextError: see ``search``.
        """
        return self._run(self._serving.corrected(check_text(query, "query")))

    @property
    def analyzer(self) -> Analyzer:
        """The collection's recorded analysis of words for BM25."""
        return self._catalog.weights.analyzer

    def maxsim(self, *, mix: float = 0.4) -> MaxSimReranker:
        """Return a late-interaction reranker, for ``RetrieveRerank(collection, collection.maxsim())``.

        The reranker compares stored token states (``late_interaction``), or computes them from the hits' texts; the
        scores differ only by rounding. The relevance of hits follows the collection's calibration.

        Args:
            mix: The argument ``mix`` of ``MaxSimReranker``.

        Raises:
            ConfigurationError: the encoder has no token states, or ``mix`` is not between 0 and 1.
        """
        from twinvec_qdrant.search.maxsim import CollectionMaxSim, StoredMaxSim

        served, encoder = self._serving.described, token_encoder(self.encoder)
        if self._serving.current.description.states_dim is None:
            return CollectionMaxSim(served, encoder, mix=mix, analyzer=self.analyzer)
        return StoredMaxSim(self._backend, served, encoder, mix=mix, analyzer=self.analyzer)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids, in the order of ``ids``; missing documents are left out.

        No tenant is needed. The text of a document is the embedded text: its chunks, joined by blank lines.

        Raises:
            TextError: ``ids`` is a single string, or an id is not a string, a whole number or a UUID, or holds a lone
                surrogate.
        """
        return self._run(stored_documents(self._backend, check_ids(ids)))

    def nearest_ids(self, source: str, limit: int = 3) -> list[str]:
        """Return the existing ids most similar to an unknown id, the most similar first; reads all ids.

        Raises:
            TextError: the id is not a string, or holds a lone surrogate.
        """
        check_limit(limit)
        return nearest_ids(check_text(as_id(source), "source"), self._catalog.sources(), limit)

    def roots(self) -> list[StoredRoot]:
        """Return the sources of the collection's documents, the first source first."""
        return list(Roots(self._backend).all().values())

    def described(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the descriptions of these documents' sources (``describe``), by document id.

        A document whose source has no description is left out.

        Raises:
            TextError: see ``get``.
        """
        return Roots(self._backend).descriptions(check_ids(ids))

    def find(
        self,
        filter: Filter | None = None,
        *,
        source: str | None = None,
        pattern: str | Sequence[str] | None = None,
    ) -> list[str]:
        """Return the ids of all documents that satisfy the filter, in arbitrary order; needs no tenant.

        Args:
            filter: Conditions on payloads and ids; default: none.
            source: Name of the documents' source (see ``roots``); default: any.
            pattern: Pattern of the ids, in which ``*`` stands for any characters ("guides/*"), or several patterns, of
                which an id fits at least one; default: any id.

        Raises:
            FilterError: the filter is invalid.
            ConfigurationError: the collection has no such source, or ``pattern`` is invalid.
        """
        patterns = _patterns(pattern)
        member = None if source is None else Roots(self._backend).membership(source)
        found = find_documents(self._catalog, filter)
        if patterns is not None:
            found = fitting(found, patterns)
        if member is None:
            return found
        member = Roots(self._backend).refreshed(member)
        return [each for each in found if member.has(each)]

    def documents(
        self,
        filter: Filter | None = None,
        *,
        source: str | None = None,
        pattern: str | Sequence[str] | None = None,
        after: str | None = None,
        limit: int | None = None,
    ) -> Iterator[DocumentEntry]:
        """List documents with their titles, sources and numbers of chunks, sorted by id; needs no tenant.

        The call reads the ids, which are held in memory, and the entries are read while the caller iterates. Arguments
        and errors not listed here are those of ``find``.

        Args:
            after: Only documents whose ids are sorted after this one, such as the last id of the previous page.
            limit: Largest number of documents; default: all.

        Raises:
            ConfigurationError: ``after`` is not a string, or ``limit`` is not a whole number of at least 1.
        """
        most = None if limit is None else integer(limit, "limit", 1)
        last = None if after is None else string(after, "after")
        found = self.find(filter, source=source, pattern=pattern)
        ids = sorted(found if last is None else (each for each in found if each > last))
        return islice(listed_documents(self._catalog, ids), most)

    def sample(self, limit: int) -> list[StoredChunk]:
        """Return at most ``limit`` chunks of committed documents, chosen by a hash of document id and chunk number.

        The same call returns the same chunks, and a larger limit adds further chunks. A new document can only displace
        the last chunks. No tenant is needed.
        """
        check_limit(limit)
        return sampled_chunks(self._backend, limit)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove the documents with these ids, and return the number of removed ones; needs no tenant.

        Raises:
            TextError: see ``get``; nothing was removed.
        """
        ids = list(dict.fromkeys(check_ids(ids)))
        with self._backend.writing:
            self._catalog.weights.refresh()
            removed = sum(1 for _ in self._catalog.remove(ids))
            if removed:
                with suppress(StoreFullError):  # the collection is full; the next ingest writes the weights
                    self._catalog.weights.rebalance()
            return removed

    def delete_source(self, source: str) -> int:
        """Remove a source (see ``roots``) and its documents, and return the number of removed documents.

        Documents that were ingested without a source belong to the first source. If a call was interrupted, repeat it.
        If another process stores documents of the source at the same time, these documents and the source stay.

        Raises:
            ConfigurationError: the collection has no such source, or ``source`` is not a string.
        """
        with self._backend.writing:
            # None would mean the documents of all sources
            membership = Roots(self._backend).membership(string(source, "source"))
            removed = self.delete(self.find(source=source))
            self._catalog.remove_root(membership)
            return removed

    def notes(self, namespace: str) -> Notes:
        """Return the notes of one namespace, the small records that an application keeps here; see ``Notes``.

        Raises:
            TextError: the namespace is not a string, or holds a lone surrogate.
        """
        return Notes(self._backend, check_text(namespace, "namespace"))

    def count(self) -> int:
        """Return the number of stored chunks, including chunks that a running ingest has not committed yet."""
        return self._backend.count([CHUNKS])

    def info(self) -> dict[str, Any]:
        """Return the contents, the name of the model and the settings of the collection, without loading the model.

        If there are "unfinished_documents", an ingest is running or was interrupted, and "points" also counts chunks
        that no search finds.
        """
        return overview(self.name, self._backend)

    def verify(self, *, repair: bool = False) -> VerifyReport:
        """Check that every document has all its chunks with their vectors, and that there are no other chunks.

        In an embedded store, all files are also read and compared with the checksums of the last close.

        Args:
            repair: Encode chunks that a killed migration has left without vectors. Remove chunks that no record lists.
                Mark documents that are incomplete or have lost their record, so that their next ingest writes them
                again. After ``open`` with ``repair``, also encode the chunks whose vectors were damaged, with the
                encoder given to ``open`` or the recorded model.

        Raises:
            StoreCorruptError: the embedded store's files are damaged: open the collection with ``repair=True``.
        """
        check_flags(repair=repair)
        with self._backend.writing if repair else self._backend.no_writers():
            return verify(self._catalog, repair=repair, encoder=lambda: self._serving.refreshed()[1])

    def migrate(
        self,
        encoder: SpaceEncoder,
        *,
        check: Callable[[Collection], bool] | None = None,
        chunks_per_second: float | None = None,
        progress: bool = False,
        allow_truncation: bool = False,
        on_progress: OnProgress | None = None,
    ) -> MigrationReport:
        """Migrate the collection to another model while it serves searches.

        Every chunk gets a second vector, including chunks written meanwhile; then one write switches to the new model.
        If the process is killed, the old or the new model has all vectors, and the next call continues. On a server, a
        kill just after the switch may leave chunks that another process has just written without a new vector; the next
        ingest encodes them. The old vectors stay until ``drop_others`` or a migration to a third model; a migration
        back encodes only newer chunks. After the switch, words are analysed by the newest version, as in ``reindex``.

        If the new model has the same space under another name, nothing is encoded. Examples are an export of the
        present model, or its folder after a move. If its vectors agree with the recorded ones, the name is recorded.

        This object goes on with the new model. Other open objects of the collection, in any process, notice the switch
        at their next search or ingest, and load the model by its recorded name. If it cannot be loaded, they search
        with the old vectors until ``drop_others``; then ``SpaceMismatchError`` says what to do.

        Args:
            encoder: Encoder of the new model.
            check: Function that is called before the switch with the migrated collection; if it returns False, the
                collection keeps the old model.
            chunks_per_second: Largest number of chunks to encode per second.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.
            allow_truncation: Migrate even if the new model truncates chunks that the present one reads whole.
            on_progress: Called with the step ("measuring" or "migrating"), its number of finished chunks, and its total
                number of chunks.

        Raises:
            ConfigurationError: the collection has this model under this name already; a migration to a third model is
                unfinished; or the new model cannot read chunks of the collection's size, or would truncate some chunks.
            SpaceMismatchError: the new model has the same space as the present model, but gives other vectors.
            BadVectorError: the encoder gives invalid vectors; the collection keeps the old model.
        """
        check_encoder(encoder, "an encoder, such as Encoder(...)")
        for function, argument in ((check, "check"), (on_progress, "on_progress")):
            if function is not None:
                check_methods(function, ("__call__",), argument, "a function")
        check_flags(progress=progress, allow_truncation=allow_truncation)
        present = None if allow_truncation else self._serving.encoder
        migration = Migration(
            self._backend, encoder, chunks_per_second, present=present, progress=progress, on_progress=on_progress
        )
        migration.fill()
        if check is None or check(Collection(self.name, self._backend, migration.target(), encoder, candidate=True)):
            self._serving.follow_own(migration.switch(), encoder)
            if not migration.renames:
                with self._backend.writing:
                    self._catalog.weights.renew()
                self._calibrate()
        return migration.report

    def reindex(
        self,
        index: IndexSettings | Mapping[str, Any] | None = None,
        *,
        cluster: ClusterSettings | None = None,
        payload_indexes: Mapping[str, str | Literal[False]] | Literal[False] | None = None,
        chunking: ChunkSettings | None = None,
    ) -> IndexReport:
        """Build the index of the vectors and the indexes of payload keys now; measure the recall of the vectors' index.

        An ingest of many chunks builds the index of the vectors by itself. Searches continue meanwhile; writers wait.
        An embedded collection needs free disk space of about twice its size. If the vectors are indexed anew, texts are
        also analysed for BM25 by the newest version; other open objects of the collection follow at their next ingest.
        Texts that were deleted or replaced are then erased from the files of an embedded collection. Chunks that killed
        writers have left are erased too, also those that a killed ingest had encoded in advance. The next ingest reads
        files by the newest reading version.

        Args:
            index: New settings, or their fields as ``info`` shows them; default: the present settings.
            cluster: How a server keeps the collection from now on. If the replication factor changes, the cluster makes
                or removes copies of every shard while it serves. A warning says if further copies have to wait; call
                again when the cluster has made the others.
            payload_indexes: New payload indexes; see ``open``. All others are removed. If ``index`` is None, the
                vectors stay as they are. Default: the present settings, also for keys of documents that an older
                version of twinvec has written.
            chunking: The present settings with other ``code``, ``pages`` or ``surroundings``. The next ingest cuts
                documents again if their chunks change. Without other arguments, the vectors stay as they are.

        Raises:
            ConfigurationError: a setting is unknown, out of range, or for new collections only; or a key has values
                that an index of the requested type would hide from filters.
            StoreUnavailableError: the server does not answer, or the disk has no room; the collection is as before.
        """
        report = reindex(self._backend, index, cluster, payload_indexes, chunking, self._catalog.weights)
        self._serving.refresh_settings()
        if index is not None or (payload_indexes is None and chunking is None):
            self._calibrate()
        return report

    def drop_others(self) -> list[str]:
        """Remove the vectors of all models but the current one, and return the names of the removed models.

        Afterwards, the last migration cannot be reversed without encoding, and an unfinished migration is given up.
        """
        self._finish_switch()
        dropped = drop_others(self._backend)
        self._finish_switch()  # another process may have switched to a dropped model meanwhile
        return dropped

    def push(
        self,
        path: str | Path | None = None,
        *,
        name: str | None = None,
        url: str | None = None,
        client: QdrantClient | None = None,
        api_key: str | None = None,
        prune: bool = False,
        allow_empty: bool = False,
        progress: bool = False,
        wait_seconds: float = 10.0,
        grpc: bool = False,
        grpc_port: int = GRPC_PORT,
    ) -> PushReport:
        """Copy the collection to another store, or update the copy there; vectors are copied, not encoded.

        If the process is killed, the next call continues. The copy can be searched and written meanwhile. ``path``,
        ``url`` or ``client`` names the other store; arguments not listed here are those of ``open``.

        Args:
            name: Name of the copy; default: the collection's name.
            prune: Remove documents and notes of the copy that are not in this collection. A document that has chunks
                here, but has lost its record, stays in the copy and is reported as missed.
            allow_empty: Let ``prune`` remove all documents if this collection is empty; default: an error.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.

        Raises:
            SpaceMismatchError: the copy has another model.
            ConfigurationError: the copy has other settings, or is this collection.
            DocumentError: this collection is empty, and ``prune`` would remove all documents of the copy.
            StoreError: one of the stores failed; copied documents stay.
        """
        check_flags(prune=prune, allow_empty=allow_empty, progress=progress)
        if path is None and url is None and client is None:
            raise ConfigurationError("push needs the other store: give one of path, url and client")
        place = StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port)
        store = find_store(self.name if name is None else name, place)
        return push(self._catalog, store, prune=prune, allow_empty=allow_empty, progress=progress)

    aingest = awaitable(ingest, writes=_CLOSED)
    asearch = awaiting(search)
    asearch_many = awaiting(search_many)
    asearch_vector = awaiting(search_vector)
    asearch_diverse = awaiting(search_diverse)
    aget = awaiting(get)
    afind = awaitable(find)
    adocuments = streaming(documents)
    adelete = awaitable(delete, writes=_CLOSED)
    adelete_source = awaitable(delete_source, writes=_CLOSED)

    @contextmanager
    def _settled_source(self, membership: Membership, report: IngestReport) -> Iterator[None]:
        """Run the block, an ingest, and settle its source, also if the ingest ends with an error."""
        try:
            yield
        except Exception:
            with suppress(StoreError):  # the store's fault may be what ended the ingest
                self._settle_source(membership, report)
            raise
        self._settle_source(membership, report)

    def _settle_source(self, membership: Membership, report: IngestReport) -> None:
        """Record the source of an ingest again if another process has removed it; remove a new, empty source.

        A new first source without documents of its own gives the documents back that were ingested without a source.
        """
        root = membership.root
        with self._backend.writing:
            if membership.added and not self._catalog.has_documents(membership):
                self._catalog.remove_root(membership)
            elif root is not None and (report.new or report.updated or report.unchanged):
                Roots(self._backend).keep(root)
            elif root is not None and root.first and membership.added and not report.deleted:
                Roots(self._backend).remove(root.name)

    def _finish_switch(self) -> None:
        finish_switch(self._backend, stored_description(self._backend), lambda: self._serving.refreshed()[1])

    def _after_switch(self) -> tuple[Description, SpaceEncoder]:
        """Finish a migration that was killed after its switch; return the description and encoder to go on with."""
        description, encoder = self._serving.refreshed()
        finish_switch(self._backend, description, lambda: encoder)
        return description, encoder

    def _calibrate(self, *, only_if_due: bool = False) -> None:
        with self._calibrating:  # of ingests that end at the same time, one measures for all
            try_to_calibrate(self._backend, self._serving.encoder, only_if_due=only_if_due)
        self._serving.refresh_settings()

    def _run(self, steps: Steps[T]) -> T:
        return self._backend.run(steps)

    def _first(self, queries: Sequence[str], request: SearchRequest, phrasings: Phrasings) -> Steps[list[Hit]]:
        return (yield from self._serving.search_texts(queries, request, phrasings))[0]


def _patterns(given: str | Sequence[str] | None) -> list[str] | None:
    """Return the argument ``pattern`` of ``find`` as a list; None stays None."""
    if given is None:
        return None
    return [
        string(each, "pattern") for each in ([given] if isinstance(given, str) else as_list(given, "pattern", "texts"))
    ]


class _Closed:
    """Replacement for the backend of a closed collection, which raises an error at every use."""

    def __init__(self, location: str) -> None:
        self.location = location

    def __getattr__(self, name: str) -> Any:
        raise closed_error(self.location)
