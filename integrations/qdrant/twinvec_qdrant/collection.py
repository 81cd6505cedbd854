"""A collection: documents in the vector space of one model, in a Qdrant store.

``Collection`` is the public face of ``opening``, ``ingest``, ``search``, ``records`` (which reads documents back) and
``maintenance``. Its points lie in a backend of ``stores``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NoReturn, TypeVar, cast

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError, StoreError, StoreLimitError
from twinvec.rerankers.maxsim import MaxSimReranker
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import Hit, Mode, SpaceEncoder, check_hits, check_limit
from twinvec.retrieval.documents import Document, as_id, check_ids
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.phrasings import Phrasings
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import check_methods, check_settings
from twinvec.text import check_text, check_texts
from twinvec_qdrant.async_methods import awaiting
from twinvec_qdrant.calibration.measuring import is_due, try_to_calibrate
from twinvec_qdrant.encoders import token_encoder
from twinvec_qdrant.ingest.helped import Helpers, Part, PartIngestion, PartReport, led_ingestion
from twinvec_qdrant.ingest.ingestion import Ingestion
from twinvec_qdrant.ingest.pace import Pace
from twinvec_qdrant.ingest.registration import registered
from twinvec_qdrant.maintenance.migration import Migration, drop_others
from twinvec_qdrant.maintenance.push import push
from twinvec_qdrant.maintenance.reindex import reindex
from twinvec_qdrant.maintenance.verification import verify
from twinvec_qdrant.opening import RequestedSettings, load_space_encoder, open_in
from twinvec_qdrant.opening_store import GRPC_PORT, AsyncQdrantClient, QdrantClient, StorePlace, find_store
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.documents import StoredChunk, find_documents, sampled_chunks, stored_documents
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
"""What ``Collection.open`` takes as the encoder."""

_CLOSED = "the collection, which ends the call, and open it again"

ENCODER = ("encode_query", "encode_document")
"""Methods that tell an encoder; its attributes are not asked for, since finding them out may cost a call."""


class Collection:
    """An open collection: ``open`` makes it; ``close``, or the end of a ``with`` block, closes it.

    Several threads may search while another ingests; a search finds each source in its last committed version.
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        description: Description,
        encoder: SpaceEncoder | None,
        weights: BM25Weights | None = None,
        *,
        candidate: bool = False,
    ) -> None:
        self.name = name
        self._backend = backend
        self._location = backend.location
        self._owns_backend = not candidate
        self._catalog = Catalog(backend, weights or BM25Weights(backend, description))
        self._serving = Serving(self._catalog, description, encoder, follows=not candidate)
        self._model = ""  # its name, once the collection is closed
        self._pace: tuple[SpaceEncoder, Pace] | None = None  # of the parts that have been written

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
    ) -> Collection:
        """Open a collection; create it if it does not exist.

        Args:
            name: Name of the collection in the store.
            path: Folder of the embedded store; default: ``./.twinvec``, without ``url`` and ``client``.
            url: Address of a Qdrant server.
            client: A ``QdrantClient`` of the caller, which stays open.
            encoder: A ``twinvec.Encoder``, the name of its model ("default"), or another ``SpaceEncoder``. Default: the
                recorded model, loaded at its first use; for a new collection ``Encoder("default")``.
            chunking: How to cut documents into chunks, or False to keep them whole; default: as the collection does.
            index: How to index vectors and search approximately; default: as the collection does.
            tenant_key: For a new collection of many tenants, the payload key that names a document's tenant. Every
                document and the filter of every search must then name a tenant.
            late_interaction: For a new collection, whether to store the token states of every chunk for ``maxsim``: two
                bytes a number, 768 bytes a token with the default model.
            create: Whether to create the collection if it does not exist.
            language: For a new collection, the Snowball language of BM25's stemmer. An existing collection keeps its
                own if this is "english".
            api_key: Key for ``url``; default: the environment variable ``QDRANT_API_KEY``, or the content of the file
                that ``QDRANT_API_KEY_FILE`` names.
            wait_seconds: How long a call waits for each process that uses the embedded store before it, or for a
                server's answer to one request, with all tries and pauses; at least a second.
            grpc: Speak gRPC with the server at ``url``, at its port ``grpc_port``, instead of REST.
            grpc_port: See ``grpc``.
            cluster: How a server keeps the collection; default: as it does, or for a new collection as the server has
                it. ``read_consistency`` may differ from the collection's.
            async_client: An ``AsyncQdrantClient`` of the caller for the awaitable searches, which stays open; may come
                alone. Default: one of our own with ``url``, worker threads with ``client``.
            payload_indexes: For a new collection, the types of indexes of payload keys: "keyword", "float", "bool",
                "integer", "datetime", "text", "geo", "uuid", or False for none. Other keys get theirs when a document
                first has them, unless ``"*"`` is False, or False replaces the mapping. An index makes filters fast,
                and never changes what they find. Default: as the collection does.
            repair: Save what can be read of an embedded collection if its files are damaged; ``verify(repair=True)``
                has to follow. Until then, nobody opens the collection without ``repair``.

        Raises:
            CollectionNotFoundError: the collection does not exist, and ``create`` is False.
            SpaceMismatchError: the collection has another model, or the encoder's vectors have changed; the collection
                was neither searched nor written.
            ConfigurationError: arguments contradict one another or the collection.
            StoreBusyError: another process does not let go of the embedded store.
            StoreUnavailableError: the server does not answer, or the folder cannot be written.
            StoreCorruptError: the store's files are damaged; the message says what to do.
        """
        if chunking is False:
            chunking = ChunkSettings(enabled=False)
        check_settings(chunking, ChunkSettings, "chunking")
        check_settings(index, IndexSettings, "index")
        check_settings(cluster, ClusterSettings, "cluster")
        if isinstance(encoder, str):
            encoder = load_space_encoder(encoder)
        elif encoder is not None:
            check_methods(encoder, ENCODER, "encoder", "an encoder, such as Encoder(...), or a model's name")
        place = StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port, async_client, repair)
        store = find_store(name, place)
        indexes = None if payload_indexes is None else PayloadIndexes.of(payload_indexes)
        wanted = RequestedSettings(encoder, chunking, index, tenant_key, language, late_interaction, cluster, indexes)
        return cls(name, *open_in(store, name, wanted, create=create))

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
            error.add_note(f"and then: {failure}")  # the first error says why

    def close(self) -> None:
        """Close the collection and its store; a second call does nothing.

        An ingest or another call that runs in another thread then ends with a StoreError, unless this process has the
        collection open a second time; what it has committed stays.
        """
        if not self._model:
            self._model = self._serving.current.description.model
            backend = self._backend
            self._backend = self._catalog = self._serving = cast(Any, _Closed(self._location))
            if self._owns_backend:
                backend.close()

    @property
    def encoder(self) -> SpaceEncoder:
        """The encoder of the collection's model: the caller's, or else the recorded model, loaded at the first use.

        After a migration it is the encoder of the new model, as soon as a search or an ingest has noticed it.

        Raises:
            ModelError: the recorded model cannot be loaded.
            SpaceMismatchError: the recorded model has changed.
        """
        return self._serving.encoder()

    @property
    def loaded_encoder(self) -> SpaceEncoder | None:
        """The encoder of the collection's model if the caller gave it or a search has loaded it, else None."""
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
        """Ingest documents: write the new and changed ones; unchanged ones cost next to nothing.

        A document that is refused or cannot be encoded fails alone, and its older version stays. After a kill, the
        collection holds every source in its old or its new version, and the next call continues.

        Texts without ids get their positions in this call as ids: "0", "1" and so on. The texts of a second call then
        replace those of the first, and a warning is logged. Give ids to documents that come in batches.

        Args:
            documents: Anything that ``twinvec.retrieval.documents.as_document`` accepts, or a ``Failure`` of
                ``read_source``; read once. Or a ``Root``, which the collection then keeps as one of its sources.
            vectors: Vectors of the collection's space for documents that are embedded already, by id; only without
                chunking and without stored token states. A vector of another id is reported with a warning.
            prune: Remove the other documents of the same source, except those that a failure may hide.
            allow_empty: Let ``prune`` remove everything if the documents are empty; default: an error.
            dry_run: Report what would be done; encode and write nothing.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.
            report: A report to count in, which is returned; it is complete even if the ingest ends with an error.
                Without one, a warning in the log says how many documents failed, and why the first one did.
            allow_all_failed: Return the report even if every document failed; default: an error, but for ``dry_run``.
            source: Name of the documents' source. The ids of the first source stay as they are. The ids of any other
                source begin with its name and a colon, so that two sources may hold the same ids. Default: the name
                of the root's folder or file; documents without a root belong to the first source. The first source
                that is named takes over the documents that came without one, so ``prune`` then removes those of them
                that this call does not bring; a warning says how many.
            describe: What the source holds, in your words: under "" the whole, under a folder's path the folder.
            helpers: Other processes that parse the files of a ``Root``, encode, and with a server also write; see
                ``twinvec_ray``.

        Raises:
            DocumentError: ``documents`` is not an iterable, or is empty and would prune everything.
            IngestError: every document failed; its ``report`` says why.
            ConfigurationError: another source has the name, or nobody has named a source, and ``prune`` would remove
                documents of an unknown one.
            SpaceMismatchError: the collection was migrated to another model, before the call or during it, and that
                model cannot be loaded or is not that of ``vectors``; committed documents stay.
            BadVectorError: one of ``vectors`` is not finite, is zero, or has another size; nothing was written.
            StoreError: the store failed; committed documents stay.
            EngineError: the encoder failed for all documents.
        """
        if not isinstance(vectors, Mapping | None):
            raise ConfigurationError(f"vectors: expected vectors by the documents' ids, got {type(vectors).__name__}")
        if helpers is not None:
            check_methods(helpers, ("with_results",), "helpers", "helpers, as twinvec_ray has them")
        check_settings(report, IngestReport, "report")
        description, encoder = self._serving.refreshed(for_vectors=bool(vectors))
        told = report is not None  # the caller, who gives a report to read
        report = IngestReport() if report is None else report
        documents, membership = registered(
            self._catalog,
            documents,
            source,
            describe or {},
            prune=prune,
            write=not dry_run,
            with_results=None if helpers is None else helpers.with_results,
        )
        given = {f"{membership.prefix}{each}": vector for each, vector in (vectors or {}).items()}
        if helpers is None:
            ingestion = Ingestion(self._catalog, description, encoder, given, report, self._serving.refreshed)
        elif given:
            raise ConfigurationError("vectors are written by one process: leave helpers out")
        else:
            ingestion = led_ingestion(self._catalog, description, encoder, report, self._serving.refreshed, helpers)
        ingestion.run(documents, membership, prune=prune, allow_empty=allow_empty, dry_run=dry_run, progress=progress)
        if membership.added and not dry_run:
            self._keep_source_if_filled(membership)
        if report.all_failed and not (dry_run or allow_all_failed):
            raise all_failed(report)
        if report.failed and not told:
            logger.warning("%s: %s", self.name, failed_warning(report, would=dry_run))
        if report.chunks and not dry_run:
            if is_due(description, self._catalog.weights.chunks or 0):
                self._calibrate()
            elif not description.average_length:  # the first ingest has written settings
                self._serving.refresh_settings()
        return report

    def write_part(self, part: Part) -> PartReport:
        """Write a part of an ingest that another process leads, which calls this through its ``Helpers``.

        Raises:
            SpaceMismatchError: the collection was migrated to a model that cannot be loaded.
            StoreError: the store failed; committed documents stay.
            EngineError: the encoder failed for all documents.
        """
        description, encoder = self._serving.refreshed()
        if self._pace is None or self._pace[0] is not encoder:
            self._pace = encoder, Pace(encoder)
        ingestion = PartIngestion(self._catalog, description, encoder, part, self._serving.refreshed, self._pace[1])
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
            query: The text; a blank one finds nothing. A misspelt word also finds what the right word finds.
            limit: Largest number of hits to return.
            mode: Compare vectors ("dense"), words ("sparse", BM25), or both and fuse them ("hybrid").
            filter: Conditions on the documents' payloads; see ``twinvec.retrieval.filters``.
            group: Return the best chunk of each source, with its id; False returns chunks, with ids such as "source#3".
            offset: Best hits to skip: those of the previous pages.
            weights: Weights of vectors and words in the fusion.
            feedback: Move the query's vector towards those of this many first hits, and search again (Rocchio 1971).
                This is another search: two more requests to a server. Hits keep the dense score of the query as it was
                asked, and have that of the moved one as "feedback".
            words: Further phrasings of the query in key words, which BM25 compares; blank ones are ignored. The query
                leads: it weighs 2 where the mean of the others weighs 1.
            answers: Made-up answers to the query, which are encoded as documents and compared by their vectors (HyDE,
                Gao et al. 2022); otherwise as ``words``.
            passages: Whether hits get the passage that answers the query; False saves about half a millisecond a hit.
            min_relevance: Leave out those of the hits that have a relevance below this, from 0 to 1; see ``Hit``.
            syntax: Whether ``"exact phrase"`` must occur in a chunk, and ``-word`` must not; see
                ``twinvec.retrieval.syntax``. Default: all of the query is text.
            exact: Compare every stored vector instead of using the index.

        Raises:
            TextError: the query or a phrasing is not a string, holds a lone surrogate, or is too large; or with
                ``syntax``, the query only says what must not occur.
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
        """Search for many texts at once, as ``search`` does; errors name a query by its index."""
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
        return self._run(self._serving.search_texts(check_texts(queries), request))

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
        """Search by a vector of the collection's space; other arguments and errors are as for ``search``.

        Args:
            vector: Shape (dim,).
            words: Text whose BM25 scores are fused with those of the vector; its spelling is corrected.
            exact: Compare every stored vector instead of using the index; this measures an index.
            space: Space of the vector (``encoder.space``); default: that of the encoder that ``open`` or ``migrate``
                was given, else of the collection's model. After a migration, the vectors of the former model are
                searched until ``drop_others``.
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

        Each chunk is chosen for its cosine with the query, less its greatest cosine with the chunks chosen before.
        Other arguments and errors are as for ``search``.

        Args:
            query: A text or a vector.
            candidates: Nearest chunks to choose from.
            diversity: Weight of the difference, from 0 (only relevance counts) to 1 (only difference counts).
            space: Space of the vector, as for ``search_vector``.
        """
        if isinstance(query, str):
            check_text(query, "query")
        check_limit(limit)
        check_limit(candidates, "candidates")
        check_diversity(diversity)
        request = SearchRequest(max(limit, candidates), filter=filter, group=False)
        return self._run(self._serving.search_diverse(query, request, limit, diversity, space))

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return hits of a search with ``passages=False``, each with the passage that answers the query.

        Raises:
            TextError: as for ``search``.
        """
        checked = check_hits(hits, "hits")
        return self._run(self._serving.with_passages(check_text(query, "query"), checked))

    @property
    def analyzer(self) -> Analyzer:
        """The analysis of words that the collection records."""
        return self._catalog.weights.analyzer

    def maxsim(self, *, mix: float = 0.4) -> MaxSimReranker:
        """Return a late-interaction reranker, for ``RetrieveRerank(collection, collection.maxsim())``.

        It compares stored token states (``late_interaction``), or else computes them from the hits' texts; the scores
        differ only by rounding. The relevance is measured by the collection's own scale.

        Args:
            mix: As for ``MaxSimReranker``.

        Raises:
            ConfigurationError: the encoder has no token states, or ``mix`` is not between 0 and 1.
        """
        from twinvec_qdrant.search.maxsim import CollectionMaxSim, StoredMaxSim

        served, encoder = self._serving.described, token_encoder(self.encoder)
        if self._serving.current.description.states_dim is None:
            return CollectionMaxSim(served, encoder, mix=mix, analyzer=self.analyzer)
        return StoredMaxSim(self._backend, served, encoder, mix=mix, analyzer=self.analyzer)

    def get(self, ids: Sequence[str]) -> list[Document]:
        """Return the documents with these ids, in their order, without the missing ones; needs no tenant.

        The text of a document is what was embedded: its chunks, joined by blank lines.

        Raises:
            TextError: ``ids`` is a single string, or an id is not a string or holds a lone surrogate.
        """
        return self._run(stored_documents(self._backend, check_ids(ids)))

    def nearest_ids(self, source: str, limit: int = 3) -> list[str]:
        """Return the ids of documents that are closest to an unknown one, the closest first; reads all ids.

        Raises:
            TextError: the id is not a string, or holds a lone surrogate.
        """
        check_limit(limit)
        return nearest_ids(check_text(as_id(source), "id"), self._catalog.sources(), limit)

    def roots(self) -> list[StoredRoot]:
        """Return the sources that the collection's documents are from, the first one first."""
        return list(Roots(self._backend).all().values())

    def described(self, ids: Sequence[str]) -> dict[str, str]:
        """Return what the sources of these documents hold, in the words of ``describe``, by id; without the others.

        Raises:
            TextError: as for ``get``.
        """
        return Roots(self._backend).descriptions(check_ids(ids))

    def find(self, filter: Filter | None = None, *, source: str | None = None) -> list[str]:
        """Return the ids of all documents that satisfy the filter, in arbitrary order; needs no tenant.

        Args:
            filter: Conditions on payloads and ids; default: none.
            source: Name of the documents' source (see ``roots``); default: any.

        Raises:
            FilterError: the filter is invalid.
            ConfigurationError: the collection has no such source.
        """
        member = None if source is None else Roots(self._backend).membership(source)
        found = find_documents(self._catalog, filter)
        return found if member is None else [each for each in found if member.has(each)]

    def sample(self, limit: int) -> list[StoredChunk]:
        """Return at most ``limit`` chunks of committed documents, chosen by a hash of document id and chunk number.

        The same call returns the same chunks, and a larger limit adds to them. A new document can displace only the
        last ones. Needs no tenant.
        """
        check_limit(limit)
        return sampled_chunks(self._backend, limit)

    def delete(self, ids: Sequence[str]) -> int:
        """Remove the documents with these ids, and return the number of removed ones; needs no tenant.

        Raises:
            TextError: as for ``get``; nothing was removed.
        """
        ids = list(dict.fromkeys(check_ids(ids)))
        with self._backend.writing:
            self._catalog.weights.refresh()
            removed = sum(1 for _ in self._catalog.remove(ids))
            if removed:
                with suppress(StoreLimitError):  # a full collection takes no weights: the next ingest writes them
                    self._catalog.weights.rebalance()
            return removed

    def delete_source(self, source: str) -> int:
        """Remove a source (see ``roots``) and its documents, and return the number of removed documents.

        Documents that were ingested without a source belong to the first one. A call that was interrupted is repeated.

        Raises:
            ConfigurationError: the collection has no such source.
        """
        with self._backend.writing:
            removed = self.delete(self.find(source=source))
            Roots(self._backend).remove(source)
            return removed

    def notes(self, namespace: str) -> Notes:
        """Return the collection's notes of one namespace: small records of an application; see ``Notes``.

        Raises:
            TextError: the namespace is not a string, or holds a lone surrogate.
        """
        return Notes(self._backend, check_text(namespace, "namespace"))

    def count(self) -> int:
        """Return the number of stored chunks: also of those that an ingest under way has not committed yet."""
        return self._backend.count([CHUNKS])

    def info(self) -> dict[str, Any]:
        """Return what the collection holds, its model and its settings; loads no model.

        Among the "points" are chunks that no search finds, if there are "unfinished_documents": those of an ingest that
        is running or was interrupted.
        """
        return overview(self.name, self._backend)

    def verify(self, *, repair: bool = False) -> VerifyReport:
        """Check that every source has all its chunks with their vectors, and that there are no other chunks.

        Of an embedded store, this also reads all files, and compares them with the checksums of the last close.

        Args:
            repair: Remove chunks that no record lists. Mark sources that are incomplete or have lost their record: the
                next ingest of their documents writes them again. After ``open`` with ``repair``, also encode the chunks
                whose vectors were damaged, with the recorded model unless ``open`` was given an encoder.

        Raises:
            StoreCorruptError: the embedded store's files are damaged: open the collection with ``repair=True``.
        """
        with self._backend.writing if repair else self._backend.no_writers():
            return verify(self._catalog, repair=repair, encoder=self._serving.encoder)

    def migrate(
        self,
        encoder: SpaceEncoder,
        *,
        check: Callable[[Collection], bool] | None = None,
        chunks_per_second: float | None = None,
        progress: bool = False,
        allow_truncation: bool = False,
    ) -> MigrationReport:
        """Migrate the collection to another model while it serves searches.

        Every chunk gets a second vector, chunks written meanwhile too; then one write switches to the new model. A kill
        leaves the old or the new model with all vectors, and the next call continues. The old vectors stay until
        ``drop_others`` or a migration to a third model; a migration back encodes only newer chunks. After the switch,
        words are analysed by the newest version, as ``reindex`` does.

        To a model of the same space under another name, such as an export of the present model or its folder in another
        place, nothing is encoded: if its vectors agree with the recorded ones, one write records the new name.

        This object goes on with the new model. Others that are open, in this process or elsewhere, notice the switch at
        their next search or ingest, load the model by its recorded name, and go on with it too. Where it cannot be
        loaded, they search with the old vectors until ``drop_others``; then ``SpaceMismatchError`` says what to do.

        Args:
            encoder: Encoder of the new model.
            check: Called before the switch with the collection as it would be; False keeps the old model.
            chunks_per_second: Largest number of chunks to encode per second.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.
            allow_truncation: Migrate even if the new model truncates chunks that the present one reads whole.

        Raises:
            ConfigurationError: the collection has this model already under this name, a migration to a third model is
                under way, or the new model cannot read chunks of the collection's size, or would truncate some of them.
            SpaceMismatchError: the new model has the same space as the present one, but other vectors.
            BadVectorError: the encoder gives invalid vectors; the collection keeps the old model.
        """
        check_methods(encoder, ENCODER, "encoder", "an encoder, such as Encoder(...)")
        present = None if allow_truncation else self._serving.encoder
        migration = Migration(self._backend, encoder, chunks_per_second, present=present, progress=progress)
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
        """Build the indexes now: that of the vectors, which is then measured, and those of payload keys.

        An ingest of many chunks builds the index of the vectors by itself. Searches continue meanwhile; writers wait.
        An embedded collection needs free disk space of about twice its size. Where the vectors are indexed anew, words
        are analysed by the newest version too; other open handles analyse their queries so from their next ingest on.
        The next ingest reads files in the newest way.

        Args:
            index: New settings, or their fields as ``info`` shows them; default: the present settings.
            cluster: How a server keeps the collection from now on. With another replication factor, the cluster makes
                or removes copies of every shard while it serves.
            payload_indexes: New payload indexes, as for ``open``; all others are removed, and without ``index`` the
                vectors stay as they are. Default: the present settings, also for the keys of documents that an older
                version of twinvec has written.
            chunking: The present settings with other ``code`` or ``pages``. The next ingest cuts the documents anew
                that would be cut differently. Without other arguments, the vectors stay as they are.

        Raises:
            ConfigurationError: a setting is unknown, out of range, or that of new collections only; or a key has values
                that an index of the requested type would hide.
            StoreUnavailableError: the server does not answer, or the disk has no room; the collection is as before.
        """
        report = reindex(self._backend, index, cluster, payload_indexes, chunking, self._catalog.weights)
        self._serving.refresh_settings()
        if index is not None or (payload_indexes is None and chunking is None):
            self._calibrate()
        return report

    def drop_others(self) -> list[str]:
        """Remove the vectors of all other models, and return the names of those models.

        This ends the way back from the last migration, and gives up an unfinished migration.
        """
        return drop_others(self._backend)

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

        After a kill, the next call continues. The copy can be searched and written meanwhile. ``path``, ``url`` or
        ``client`` names the other store; arguments that are not listed here are as for ``open``.

        Args:
            name: Name of the copy; default: the collection's name.
            prune: Remove documents and notes of the copy that are not in this collection. A document that has chunks
                here, but has lost its record, is reported as missed instead.
            allow_empty: Let ``prune`` remove everything if this collection is empty; default: an error.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.

        Raises:
            SpaceMismatchError: the collection there has another model.
            ConfigurationError: the collection there has other settings, or is this collection.
            DocumentError: this collection is empty, and ``prune`` would remove all documents there.
            StoreError: one of the stores failed; copied documents stay.
        """
        if path is None and url is None and client is None:
            raise ConfigurationError("where is the other store? give one of path, url and client")
        place = StorePlace(path, url, client, api_key, wait_seconds, grpc, grpc_port)
        store = find_store(name or self.name, place)
        return push(self._catalog, store, prune=prune, allow_empty=allow_empty, progress=progress)

    aingest = awaitable(ingest, writes=_CLOSED)
    asearch = awaiting(search)
    asearch_many = awaiting(search_many)
    asearch_vector = awaiting(search_vector)
    asearch_diverse = awaiting(search_diverse)
    aget = awaiting(get)
    afind = awaitable(find)
    adelete = awaitable(delete, writes=_CLOSED)
    adelete_source = awaitable(delete_source, writes=_CLOSED)

    def _keep_source_if_filled(self, added: Membership) -> None:
        """Forget a source of which the first ingest has stored nothing."""
        with self._backend.writing:
            if not any(map(added.has, self._catalog.sources())):
                Roots(self._backend).remove(added.added)

    def _calibrate(self) -> None:
        try_to_calibrate(self._backend, self._serving.encoder)
        self._serving.refresh_settings()

    def _run(self, steps: Steps[T]) -> T:
        return self._backend.run(steps)

    def _first(self, queries: Sequence[str], request: SearchRequest, phrasings: Phrasings) -> Steps[list[Hit]]:
        return (yield from self._serving.search_texts(queries, request, phrasings))[0]


class _Closed:
    """Takes the place of the backend of a closed collection: every use is an error."""

    def __init__(self, location: str) -> None:
        self.location = location

    def __getattr__(self, name: str) -> Any:
        raise closed_error(self.location)
