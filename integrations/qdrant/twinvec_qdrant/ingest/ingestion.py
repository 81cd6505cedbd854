"""Ingestion: documents -> plans -> vectors -> commits.

``document_gate`` checks a document, ``planned`` compares it with its record and cuts it into chunks, ``chunk_vectors``
finds or encodes their vectors, and ``records.commits`` commits the points. An unchanged document goes no further than
the comparison. A thread encodes one batch while this one commits the batch before it and plans the one after it.

A broken document fails alone, and its older version stays. A broken store or encoder ends the ingest with its error;
the committed documents stay, and the next ingest continues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from operator import length_hint

from twinvec.arrays import FloatArray
from twinvec.errors import DocumentError, StoreUnavailableError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.support.progress import Advance, progress_bar
from twinvec_qdrant.ingest.chunk_vectors import ChunkVectors, Encoded
from twinvec_qdrant.ingest.chunking import Chunker
from twinvec_qdrant.ingest.document_gate import DocumentGate
from twinvec_qdrant.ingest.planned import PlannedDocument, Planner, TextVectors, document_batches, texts
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description, check_current_model
from twinvec_qdrant.records.schema import CHUNKS, tenant_path
from twinvec_qdrant.records.tenancy import Tenants
from twinvec_qdrant.report import IngestReport

logger = logging.getLogger(__name__)

_ROUNDS = 5  # a commit is lost only to another writer of the same source


class Ingestion:
    """One ingest into one collection; ``given`` holds the checked vectors of whole documents, by id."""

    def __init__(
        self,
        catalog: Catalog,
        bm25: BM25Weights,
        description: Description,
        encoder: SpaceEncoder,
        given: Mapping[str, FloatArray],
        report: IngestReport,
    ) -> None:
        chunking, key = description.chunking, description.tenant_key
        self._catalog = catalog
        self._backend = catalog.backend
        self._bm25 = bm25
        self._description = description
        self._report = report
        self._tenants = Tenants(catalog, key)
        self._planner = Planner(catalog, self._tenants, Chunker(encoder, chunking), report)
        self._gate = DocumentGate(chunking.as_dict(), key, self._planner.refused, self._planner.unchanged)
        self._vectors = ChunkVectors(self._backend, encoder, description, given)
        self._encoding = ThreadPoolExecutor(1, thread_name_prefix="twinvec-ingest")

    def run(
        self, documents: Iterable[object], *, prune: bool, allow_empty: bool, dry_run: bool, progress: bool
    ) -> IngestReport:
        """Ingest the documents; see ``Collection.ingest``."""
        groups = self._gate.groups(documents)
        total = length_hint(documents) or None
        try:
            with (
                self._backend.writing,
                progress_bar("Ingesting", total, "documents", shown=progress) as self._planner.advance,
            ):
                batches = document_batches(self._planner.planned(groups, self._gate.seen))
                if dry_run:
                    self._count_only(batches)
                else:
                    self._write(batches)
                if prune:
                    self._prune(allow_empty=allow_empty, dry_run=dry_run)
                if not dry_run:
                    self._bm25.rebalance()
                    self._build_index()
        except BaseException as error:
            error.add_note(f"committed before the error: {self._report}")
            raise
        finally:
            self._encoding.shutdown(cancel_futures=True)
        return self._report

    def _count_only(self, batches: Iterable[Sequence[PlannedDocument]]) -> None:
        for batch in batches:
            self._report.encoded += len(texts(batch).keys() - self._vectors.known(batch).keys())
            for planned in batch:
                self._count(planned, planned.new_chunks())
            self._planner.advance(len(batch))

    def _write(self, batches: Iterator[Sequence[PlannedDocument]]) -> None:
        self._catalog.recover()
        self._bm25.refresh()
        if not self._backend.count([CHUNKS]):
            self._backend.begin_load(tenant_path(self._description.tenant_key))
        for batch, encoded in self._encoded(batches):
            failed = self._report.failed
            self._commit(batch.documents, encoded.result())
            self._planner.advance(len(batch.documents) - batch.moved, failed=self._report.failed - failed)

    def _encoded(self, batches: Iterator[Sequence[PlannedDocument]]) -> Iterator[tuple[_Batch, Future[Encoded]]]:
        """Yield each batch with its vectors once the next batch is planned and waits for the encoder.

        If planning fails, the batches that were planned before come first.
        """
        current: tuple[_Batch, Future[Encoded]] | None = None
        try:
            for planned in batches:
                following = self._start(planned)
                if current is not None:
                    yield current
                current = following
        except Exception:
            if current is not None:
                yield current
            raise
        if current is not None:
            yield current

    def _start(self, planned: Sequence[PlannedDocument]) -> tuple[_Batch, Future[Encoded]]:
        known = self._vectors.known(planned)
        batch = _Batch(planned, len(texts(planned).keys() - known.keys()), self._planner.advance)
        return batch, self._encoding.submit(self._vectors.complete, planned, known, batch.on_texts)

    def _commit(self, batch: Sequence[PlannedDocument], encoded: Encoded) -> None:
        """Commit a batch; plan a document again if another writer has changed it meanwhile."""
        check_current_model(self._backend, self._description.vector)
        for source, reason in encoded.failures:
            self._report.fail(source, reason)
        self._report.encoded += encoded.encoded
        left = [each for each in batch if all(key in encoded.vectors for key in each.keys)]
        for _ in range(_ROUNDS):
            lost = self._commit_once(left, encoded.vectors)
            if not lost:
                return
            left = self._planner.planned_again(lost)
        for each in left:
            self._report.fail(each.document.id, "another writer keeps changing it")

    def _commit_once(
        self, batch: Sequence[PlannedDocument], vectors: Mapping[str, TextVectors]
    ) -> list[PlannedDocument]:
        """Commit documents; return those that another writer won."""
        terms = self._bm25.terms([chunk.text for planned in batch for chunk in planned.chunks])
        weights = zip(self._bm25.documents(terms), map(len, terms), strict=True)
        changes = [planned.change(vectors, weights, self._description.vector) for planned in batch]
        won_by_others = {change.record.source for change in self._catalog.write(changes)}
        lost = []
        for planned, change in zip(batch, changes, strict=True):
            if planned.document.id in won_by_others:
                lost.append(planned)
            else:
                self._bm25.changed(planned.old, change.record)
                self._count(planned, len(change.points))
        return lost

    def _count(self, planned: PlannedDocument, written: int) -> None:
        if planned.old is None:
            self._report.new += 1
        elif planned.old.version == planned.version:  # another writer committed the same
            self._report.unchanged += 1
        else:
            self._report.updated += 1
        self._report.chunks += written
        self._report.truncated += sum(chunk.truncated for chunk in planned.chunks)

    def _prune(self, *, allow_empty: bool, dry_run: bool) -> None:
        """Remove the sources that were not among the documents, of the tenants that the documents name."""
        if self._gate.hidden:
            logger.warning(
                "nothing was pruned: %d failures may hide documents, so a missing document may still exist",
                self._gate.hidden,
            )
            return
        gone = [source for source in self._tenants.sources(self._gate.tenants) if source not in self._gate.seen]
        if gone and not self._gate.seen and not allow_empty:
            raise DocumentError(
                f"the ingest got no documents, and pruning would remove all {len(gone):,} of {self._backend.location}; "
                "to remove them, pass allow_empty=True (--allow-empty)"
            )
        if dry_run:
            self._report.deleted = len(gone)
            return
        for record in self._catalog.remove(gone):
            self._bm25.changed(record, None)
            self._report.deleted += 1

    def _build_index(self) -> None:
        try:
            self._backend.build_index(self._description.index)
        except StoreUnavailableError as error:  # searches work without the index, only more slowly
            logger.warning("no index was built: %s", error)


@dataclass(slots=True)
class _Batch:
    """A batch that is being encoded; ``advance`` moves the progress bar, which has ``moved`` by that many documents."""

    documents: Sequence[PlannedDocument]
    texts: int
    advance: Advance
    encoded: int = 0
    moved: int = 0

    def on_texts(self, count: int) -> None:
        """Move the progress bar after ``count`` more texts are encoded."""
        self.encoded = min(self.encoded + count, self.texts)
        step = len(self.documents) * self.encoded // self.texts - self.moved
        self.moved += step
        self.advance(step)
