"""Ingestion: documents -> what is new -> chunks -> vectors -> commits.

Documents are taken in groups and compared with their records; what is unchanged costs no more than that. A batch is
encoded in a thread of its own while the one before it is committed and the one after it is read and cut. A text that
only moved, or whose payload changed, keeps its vector. What is broken about one document makes that document fail and
nothing else: it is named in the report, and its older version stays. What is broken about the store, or about the
encoder altogether, ends the ingest with its error; what was committed before stays committed, and the next ingest goes
on from there.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import length_hint
from uuid import uuid4

from twinvec.arrays import FloatArray
from twinvec.errors import DocumentError, InputError, StoreUnavailableError
from twinvec.retrieval.documents import Document
from twinvec.support.progress import Advance, progress_bar, unseen
from twinvec_qdrant.encoders import SpaceEncoder
from twinvec_qdrant.ingest.chunk_vectors import Encoded, TextVectors, Vectors
from twinvec_qdrant.ingest.chunking import Chunker
from twinvec_qdrant.ingest.document_gate import DocumentGate
from twinvec_qdrant.ingest.planned import PlannedDocument, in_batches, plan_document, texts
from twinvec_qdrant.records.bm25_weights import Lexicon
from twinvec_qdrant.records.catalog import Catalog, Change
from twinvec_qdrant.records.description import Description, check_in_force
from twinvec_qdrant.records.schema import Record, tenant_path
from twinvec_qdrant.records.tenancy import FOREIGN, Tenants
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Point

logger = logging.getLogger(__name__)

_ROUNDS = 5  # a commit is lost only to another writer of the same source


class Ingestion:
    """One ingest into one collection.

    Args:
        backend: Where to.
        encoder: Of the collection's model; checked.
        chunker: With the collection's settings.
        lexicon: The collection's BM25 weights.
        description: The collection's.
        given: Vectors of documents that come with theirs, by id; checked.
        report: Where what is done is counted.
    """

    def __init__(
        self,
        backend: Backend,
        encoder: SpaceEncoder,
        chunker: Chunker,
        lexicon: Lexicon,
        description: Description,
        given: Mapping[str, FloatArray],
        report: IngestReport,
    ) -> None:
        self._backend = backend
        self._chunker = chunker
        self._lexicon = lexicon
        self._vector = description.vector
        self._index = IndexSettings.from_dict(description.index)
        self._vectors = Vectors(backend, encoder, description, given)
        self._catalog = Catalog(backend)
        self._tenants = Tenants(self._catalog, description.tenant_key)
        self._tenant_path = tenant_path(description.tenant_key)
        self._report = report
        self._intake = DocumentGate(chunker.settings.as_dict(), description.tenant_key, self._refused, self._unchanged)
        self._advance: Advance = unseen
        self._encoding = ThreadPoolExecutor(1, thread_name_prefix="twinvec-ingest")

    def run(
        self, documents: Iterable[object], *, prune: bool, allow_empty: bool, dry_run: bool, progress: bool
    ) -> IngestReport:
        """Take the documents in; see ``Collection.ingest``."""
        groups = self._intake.groups(documents)
        total = length_hint(documents) or None
        try:
            with (
                self._backend.writing,
                progress_bar("Ingesting", total, "documents", shown=progress) as self._advance,
            ):
                if dry_run:
                    self._foresee(groups)
                else:
                    self._write(groups)
                if prune:
                    self._prune(allow_empty=allow_empty, dry_run=dry_run)
                if not dry_run:
                    self._lexicon.rebalance()
                    self._build_index()
        except BaseException as error:
            error.add_note(f"committed before the error: {self._report}")
            raise
        finally:
            self._encoding.shutdown(cancel_futures=True)
        return self._report

    def _write(self, groups: Iterator[list[Document]]) -> None:
        self._catalog.recover()
        self._lexicon.refresh()
        if not self._backend.count([field_is("kind", "chunk")]):
            self._backend.begin_load(self._tenant_path)
        for batch, encoded, moved in self._encoded(in_batches(self._changed(groups))):
            before = self._report.failed
            self._commit_all(batch, encoded)
            self._advance(len(batch) - moved.documents, failed=self._report.failed - before)

    def _foresee(self, groups: Iterator[list[Document]]) -> None:
        """Count what ``_write`` would do."""
        for batch in in_batches(self._changed(groups)):
            self._report.encoded += len(texts(batch).keys() - self._vectors.known(batch).keys())
            for work in batch:
                self._count(work, sum(identity not in work.kept for identity, _ in work.points()))
            self._advance(len(batch))

    def _changed(self, groups: Iterable[Sequence[Document]]) -> Iterator[PlannedDocument]:
        """The documents that are new or changed, cut into chunks."""
        for group in groups:
            records = self._catalog.records(document.id for document in group)
            changed: list[tuple[Document, str]] = []
            for document in group:
                record, version = records.get(document.id), self._intake.seen[document.id]
                if record and record.version == version:
                    self._unchanged()
                else:
                    changed.append((document, version))
            foreign = self._tenants.foreign((document for document, _ in changed), records)
            for document, version in changed:
                if document.id in foreign:
                    self._refused(document.id, FOREIGN)
                    continue
                try:
                    chunks = self._chunker.chunks(document)
                except InputError as error:
                    self._refused(document.id, str(error))
                else:
                    yield plan_document(document, version, chunks, records.get(document.id))

    def _encoded(
        self, batches: Iterator[list[PlannedDocument]]
    ) -> Iterator[tuple[list[PlannedDocument], Encoded, _Moved]]:
        """Batches with their vectors. Where reading fails, what was read before comes first."""
        waiting: deque[tuple[list[PlannedDocument], Future[Encoded], _Moved]] = deque()
        failure: Exception | None = None
        while True:
            try:
                batch = next(batches, None)
            except Exception as error:
                failure, batch = error, None
            if batch is not None:
                known = self._vectors.known(batch)
                moved = _Moved(len(batch), len(texts(batch).keys() - known.keys()), self._advance)
                waiting.append((batch, self._encoding.submit(self._vectors.complete, batch, known, moved), moved))
            while len(waiting) > (batch is not None):
                done, future, moved = waiting.popleft()
                yield done, future.result(), moved
            if failure is not None:
                raise failure
            if batch is None:
                return

    def _commit_all(self, batch: Sequence[PlannedDocument], encoded: Encoded) -> None:
        """Commit a batch; what another writer changed meanwhile is planned anew on its version."""
        check_in_force(self._backend, self._vector)
        for source, reason in encoded.failures:
            self._report.fail(source, reason)
        self._report.encoded += encoded.encoded
        batch = [work for work in batch if all(key in encoded.vectors for key in work.keys)]
        for _ in range(_ROUNDS):
            lost = self._commit(batch, encoded.vectors)
            if not lost:
                return
            records = self._catalog.records(lost)
            foreign = self._tenants.foreign((work.document for work in batch if work.document.id in lost), records)
            for source in foreign:
                self._report.fail(source, FOREIGN)
            lost -= foreign
            batch = [work.planned_on(records.get(work.document.id)) for work in batch if work.document.id in lost]
        for work in batch:
            self._report.fail(work.document.id, "another writer keeps changing it")

    def _commit(self, batch: Sequence[PlannedDocument], vectors: Mapping[str, TextVectors]) -> set[str]:
        """Write a batch; returns the sources that were lost to another writer."""
        terms = self._lexicon.terms([chunk.text for work in batch for chunk in work.chunks])
        weights = iter(zip(self._lexicon.documents(terms), map(len, terms), strict=True))
        changes: dict[str, tuple[PlannedDocument, Change]] = {}
        for work in batch:
            points, length, revision = [], 0, uuid4().hex
            for (identity, payload), key in zip(work.points(), work.keys, strict=True):
                sparse, count = next(weights)
                length += count
                dense, states = vectors[key]
                points.append(Point(identity, {**payload, "revision": revision}, dense, sparse, self._vector, states))
            chunks = tuple(point.id for point in points)
            record = Record(work.document.id, work.version, revision, chunks, length, {} if chunks else work.payload)
            change = Change(record, [point for point in points if point.id not in work.kept], work.old)
            changes[work.document.id] = (work, change)
        lost = {change.record.source for change in self._catalog.write([change for _, change in changes.values()])}
        for source, (work, change) in changes.items():
            if source not in lost:
                self._lexicon.changed(work.old, change.record)
                self._count(work, len(change.points))
        return lost

    def _count(self, work: PlannedDocument, written: int) -> None:
        if work.old is None:
            self._report.new += 1
        elif work.old.version == work.version:  # another writer committed the same
            self._report.unchanged += 1
        else:
            self._report.updated += 1
        self._report.chunks += written
        self._report.truncated += sum(chunk.truncated for chunk in work.chunks)

    def _prune(self, *, allow_empty: bool, dry_run: bool) -> None:
        """Remove the sources that were not among the documents; of many tenants' only those of the ones that came."""
        if self._intake.hidden:
            logger.warning(
                "nothing was pruned: %d failures may hide documents, so that what is missing need not be gone",
                self._intake.hidden,
            )
            return
        gone = [source for source in self._tenants.sources(self._intake.tenants) if source not in self._intake.seen]
        if gone and not self._intake.seen and not allow_empty:
            raise DocumentError(
                f"no documents came, and pruning would remove all {len(gone):,} of {self._backend.location}; if that "
                "is meant, say so (allow_empty=True, --allow-empty)"
            )
        if dry_run:
            self._report.deleted = len(gone)
            return
        for record in self._catalog.remove(gone):
            self._lexicon.changed(record, None)
            self._report.deleted += 1

    def _build_index(self) -> None:
        try:
            self._backend.build_index(self._index)
        except StoreUnavailableError as error:  # everything is there and is found, if more slowly
            logger.warning("no index was built: %s", error)

    def _refused(self, source: str, reason: str) -> None:
        self._report.fail(source, reason)
        self._advance(1, failed=1)

    def _unchanged(self) -> None:
        self._report.unchanged += 1
        self._advance(1)


class _Moved:
    """Moves the progress bar by the documents of a batch, as its texts are encoded.

    Attributes:
        documents: How many it has been moved by.
    """

    def __init__(self, documents: int, texts: int, advance: Advance) -> None:
        self.documents = 0
        self._all = documents
        self._texts = texts
        self._encoded = 0
        self._advance = advance

    def __call__(self, texts: int) -> None:
        """So many more texts were encoded."""
        self._encoded = min(self._encoded + texts, self._texts)
        step = self._all * self._encoded // self._texts - self.documents
        self.documents += step
        self._advance(step)
