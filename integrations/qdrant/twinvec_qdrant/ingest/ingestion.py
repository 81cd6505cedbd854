"""Ingestion: documents -> plans -> vectors -> commits.

``document_gate`` checks a document, ``planned`` compares it with its record and cuts it into chunks, ``chunk_vectors``
finds or encodes their vectors, and ``records.commits`` commits the points. An unchanged document is skipped after the
comparison. One thread encodes a portion of a batch (``encoding``) while the calling thread writes the portion before it
and plans the next batch. If only a part of a document is encoded so far, its encoded chunks are written without a
commit, as a draft.

An invalid document fails alone, and its older version stays. A failed store or encoder ends the ingest with its error;
the committed documents stay, and the next ingest continues. If the collection is migrated meanwhile, the ingest goes on
with the new model, and encodes the uncommitted documents again.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import length_hint
from uuid import uuid4

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError, DocumentError, SpaceMismatchError, StoreUnavailableError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.documents import replaced_warning
from twinvec.support.checks import listed, shown
from twinvec.support.progress import progress_bar
from twinvec_qdrant.encoders import checked_vector
from twinvec_qdrant.ingest.chunk_vectors import ChunkVectors
from twinvec_qdrant.ingest.cutting.chunking import Chunk, Chunker
from twinvec_qdrant.ingest.cutting.ways import Cutting
from twinvec_qdrant.ingest.document_gate import DocumentGate, total_work
from twinvec_qdrant.ingest.encoding import Encoding, LastingErrors, Portion
from twinvec_qdrant.ingest.largest import LargestDocuments
from twinvec_qdrant.ingest.moved import moved_chunks
from twinvec_qdrant.ingest.pace import Pace
from twinvec_qdrant.ingest.planned import (
    Changed,
    PlannedDocument,
    Planner,
    TextVectors,
    WeighedText,
    distinct,
    document_batches,
)
from twinvec_qdrant.records.commits import Catalog, Draft, Leftovers
from twinvec_qdrant.records.description import Description, check_current_model, name_first_model
from twinvec_qdrant.records.payload_indexes import PayloadIndexing
from twinvec_qdrant.records.roots import Membership, Roots
from twinvec_qdrant.records.schema import CHUNKS, tenant_path
from twinvec_qdrant.records.tenancy import Tenants
from twinvec_qdrant.report import NAMED, IngestReport, taken_over_warning, unknown_warning, unused_warning
from twinvec_qdrant.stored_roots import StoredRoot

logger = logging.getLogger(__name__)

_MANY = 10  # fewer documents of a folder that is empty now are pruned, as they are soon encoded again
_ROUNDS = 5  # tries of a commit, which fails only if another writer changes the same document


class Ingestion:
    """One ingest into one collection.

    ``given`` holds the caller's vectors of whole documents, by id. ``refreshed`` returns the present description and
    the encoder of its model, or raises ``SpaceMismatchError`` if the encoder cannot be loaded. ``pace`` is the pace of
    an earlier ingest with the same encoder.
    """

    def __init__(
        self,
        catalog: Catalog,
        description: Description,
        encoder: SpaceEncoder,
        given: Mapping[str, Sequence[float]],
        report: IngestReport,
        refreshed: Callable[[], tuple[Description, SpaceEncoder]],
        pace: Pace | None = None,
    ) -> None:
        vectors = _checked(given, description)
        chunking, key = description.chunking, description.tenant_key
        self._catalog = catalog
        self._backend = catalog.backend
        self._bm25 = catalog.weights
        self._description = description
        self._report = report
        self._tenants = Tenants(catalog, key)
        chunker = Chunker(encoder, chunking, reading=description.reading or 1)
        self._cutting = Cutting(catalog, chunker)
        self._planner = Planner(catalog, self._tenants, chunker, report, description.layout)
        self._gate = DocumentGate(
            chunking.sizes(),
            key,
            self._planner.refused,
            self._planner.unchanged,
            self._planner.empty,
            self._cutting.ways,
        )
        self._vectors = ChunkVectors(self._backend, encoder, description, vectors)
        self._pace = pace or Pace(encoder)
        self._encoding = Encoding(self._vectors, self._pace)
        self._given = vectors
        self._refreshed = refreshed
        self._taken: deque[Sequence[PlannedDocument]] = deque()  # batches that are not yet written as a whole
        self._waiting: list[PlannedDocument] | None = None  # unwritten documents of ``_taken[0]``, once it is begun
        self._drafts: dict[str, Draft] = {}
        self._indexing = PayloadIndexing(self._backend, description.payload_indexes)
        self._largest = LargestDocuments()
        self._root: StoredRoot | None = None
        self._replaced = 0  # number of texts without ids that replaced other texts

    def run(
        self,
        documents: Iterable[object],
        membership: Membership,
        *,
        prune: bool,
        allow_empty: bool,
        dry_run: bool,
        progress: bool,
    ) -> IngestReport:
        """Ingest the documents of one source; see ``Collection.ingest``."""
        groups, before = self._gate.groups(documents, membership), self._report.unknown
        self._root = membership.root
        self._vectors.moved = moved_chunks(self._catalog, self._description, membership, documents)
        self._cutting.records = not dry_run
        total, work = length_hint(documents) or None, total_work(documents) if progress else None
        try:
            with (
                self._backend.no_writers() if dry_run else self._backend.writing,
                progress_bar("Ingesting", total, "documents", work=work, shown=progress) as self._planner.advance,
            ):
                changed = self._planner.changed(groups, self._gate.seen, self._gate.work)
                if dry_run:
                    self._count_only(document_batches(self._planner.planned(changed)))
                else:
                    self._write_changed(changed)
                if prune:
                    empty = getattr(documents, "empty_folders", tuple) if not allow_empty else tuple
                    self._prune(membership, empty, allow_empty=allow_empty, dry_run=dry_run)
                if not dry_run:
                    self._bm25.rebalance()
                    self._build_index()
        except BaseException as error:
            error.add_note(f"committed before the error: {self._report}")
            raise
        finally:
            self._encoding.close()
            self._catalog.leave(self._drafts.values())
        if self._replaced:
            self._warn(replaced_warning(self._replaced, would=dry_run))
        if unknown := self._report.unknown - before:
            self._warn(unknown_warning(unknown))
        if told := self._largest.warning(membership.prefix):
            self._warn(told)
        if unused := [each.removeprefix(membership.prefix) for each in self._given.keys() - self._gate.seen.keys()]:
            self._warn(unused_warning(sorted(unused)))
        return self._report

    def _warn(self, message: str) -> None:
        logger.warning(message)
        self._report.warnings.append(message)

    def _write_changed(self, changed: Iterator[Changed]) -> None:
        """Cut, encode and commit documents."""
        self._write(LastingErrors(document_batches(self._planner.planned(changed))))

    def _count_only(self, batches: Iterable[Sequence[PlannedDocument]]) -> None:
        for batch in batches:
            self._report.encoded += len(distinct(batch).keys() - self._vectors.known(batch).keys())
            for planned in batch:
                self._count(planned, planned.new_chunks())
            self._planner.advance(len(batch), work=sum(planned.work for planned in batch))

    def _write(self, batches: Iterator[Sequence[PlannedDocument]]) -> None:
        while True:
            try:
                return self._write_with_model(iter(partial(self._next_of, batches), None))
            except SpaceMismatchError:
                before = self._description
                if self._given:
                    raise
                self._encoding.close()
                self._description, encoder = self._refreshed()
                if self._description.has_vectors_of(before):
                    raise
                logger.info("%s: the ingest goes on with the model %r", self._backend.location, self._description.model)
                moved = self._vectors.moved
                self._vectors = ChunkVectors(self._backend, encoder, self._description, {})
                self._vectors.moved = moved
                self._encoding = Encoding(self._vectors, Pace(encoder))
                batches = chain(self._uncommitted(), batches)

    def _next_of(self, batches: Iterator[Sequence[PlannedDocument]]) -> Sequence[PlannedDocument] | None:
        batch = next(batches, None)
        if batch is not None:
            self._taken.append(batch)
        return batch

    def _uncommitted(self) -> list[list[PlannedDocument]]:
        """Plan all uncommitted documents again, and remove the chunks that were written for them."""
        for draft in self._drafts.values():
            self._catalog.discard(draft)
        self._drafts.clear()
        if self._waiting is not None:
            self._taken[0] = self._waiting
        left = [self._planner.planned_again(batch) for batch in self._taken]
        self._taken.clear()
        self._waiting = None
        return left

    def _write_with_model(self, batches: Iterator[Sequence[PlannedDocument]]) -> None:
        left = self._begin()
        self._vectors.left = left.sources
        vectors: dict[str, TextVectors] = {}
        for portion in self._encoding.portions(batches, self._planner.advance):
            failed = self._report.failed
            if portion.is_first:
                self._waiting, vectors = list(portion.batch), {}
                self._indexing.see(payload for planned in portion.batch for payload in planned.payloads())
                self._bm25.begin([chunk.embedded for planned in portion.batch for chunk in planned.chunks])
            vectors.update(portion.vectors)
            self._write_portion(portion, vectors)
            if portion.is_last:
                self._taken.popleft()
                self._waiting = None
            self._planner.advance(portion.unseen, failed=self._report.failed - failed, work=portion.unseen_work)
        self._catalog.clear(left)

    def _begin(self) -> Leftovers:
        """Prepare the collection for writing; return the intents and documents that killed writers left."""
        left = self._catalog.leftovers()
        self._bm25.refresh()
        if not self._backend.holds([CHUNKS]):
            self._backend.begin_load(tenant_path(self._description.tenant_key))
            name_first_model(self._backend, self._description)
            if self._backend.exclusive:
                self._bm25.count_from_nothing()
        return left

    def _write_portion(self, portion: Portion, vectors: Mapping[str, TextVectors]) -> None:
        """Commit documents that have all their vectors, write the new chunks of others, and drop failed documents."""
        check_current_model(self._backend, self._description.vector, self._description.space)
        self._report.encoded += portion.encoded
        for source, reason in portion.failures:
            self._report.fail(source, reason)
            if source in self._drafts:
                self._catalog.discard(self._drafts.pop(source))
        failed = {source for source, _ in portion.failures}
        self._waiting = [planned for planned in self._waiting or () if planned.document.id not in failed]
        whole: list[PlannedDocument] = []
        partly: list[PlannedDocument] = []
        for planned in self._waiting:
            (whole if all(key in vectors for key in planned.keys) else partly).append(planned)
        self._commit(whole, vectors)
        self._waiting = partly
        for planned in partly:
            self._stage(planned, portion.vectors)

    def _stage(self, planned: PlannedDocument, vectors: Mapping[str, TextVectors]) -> None:
        """Write the chunks that have just got their vectors, without a commit."""
        rows = [row for row, key in enumerate(planned.keys) if key in vectors]
        chunks = self._weighed({planned.keys[row]: planned.chunks[row] for row in rows}, vectors)
        draft = self._drafts.get(planned.document.id) or Draft(planned.document.id, uuid4().hex)
        chunks = self._vectors.given_to(planned, chunks)
        if points := planned.points(rows, chunks, self._description.vector, draft.revision):
            self._drafts[planned.document.id] = draft  # documents without a draft share their commit's revision
            self._catalog.stage(draft, points)

    def _commit(self, batch: Sequence[PlannedDocument], vectors: Mapping[str, TextVectors]) -> None:
        """Commit documents; plan a document again if another writer has changed it meanwhile."""
        left = batch
        for _ in range(_ROUNDS):
            if not left:
                return
            left = self._planner.planned_again(lost) if (lost := self._commit_once(left, vectors)) else ()
        for each in left:
            self._report.fail(each.document.id, "another writer keeps changing the document; try again later")

    def _commit_once(
        self, batch: Sequence[PlannedDocument], vectors: Mapping[str, TextVectors]
    ) -> list[PlannedDocument]:
        """Commit documents; return the documents that another writer changed first."""
        chunks = self._weighed(distinct(batch), vectors)
        revision = uuid4().hex
        changes = []
        for planned in batch:
            draft = self._drafts.get(planned.document.id)
            own = draft.revision if draft else revision
            known = self._vectors.given_to(planned, chunks)
            changes.append(planned.change(known, self._description, own, draft))
        won_by_others = {change.record.source for change in self._catalog.write(changes, self._root)}
        lost = []
        for planned, change in zip(batch, changes, strict=True):
            self._drafts.pop(planned.document.id, None)
            if planned.document.id in won_by_others:
                lost.append(planned)
            else:
                self._count(planned, len(change.points))
        return lost

    def _weighed(self, chunks: Mapping[str, Chunk], vectors: Mapping[str, TextVectors]) -> Mapping[str, WeighedText]:
        """Return the vectors and the number of terms of each chunk, by key."""
        terms = self._bm25.terms([chunk.embedded for chunk in chunks.values()])
        weights = zip(chunks, self._bm25.documents(terms), terms, strict=True)
        return {key: WeighedText(vectors[key], sparse, len(each)) for key, sparse, each in weights}

    def _count(self, planned: PlannedDocument, written: int) -> None:
        if planned.old is not None and planned.old.version == planned.version:
            self._report.unchanged += 1  # another writer committed the same version
        else:
            self._report.new += planned.old is None
            self._report.updated += planned.old is not None
            self._replaced += planned.replaces_text and planned.document.id in self._gate.unnamed
            self._largest.add(planned.document.id, written)
        self._report.chunks += written
        self._report.truncated += sum(chunk.truncated for chunk in planned.chunks)
        self._report.unknown += sum(chunk.unknown for chunk in planned.chunks)

    def _prune(
        self,
        membership: Membership,
        empty_folders: Callable[[], Iterable[str]],
        *,
        allow_empty: bool,
        dry_run: bool,
    ) -> None:
        """Remove the stored documents of this source that the ingest did not get.

        If the collection has tenants, only documents of the tenants that the ingest names are removed. A document that
        a failure may hide stays, and so do many documents of a folder that is empty now.
        """
        member = Roots(self._backend).refreshed(membership)
        if self._description.tenant_key is not None and not self._gate.seen:
            self._name_no_tenant(member, allow_empty=allow_empty)
        own = filter(member.has, list(self._tenants.sources(self._gate.tenants)))
        missing = [source for source in own if source not in self._gate.seen]
        hidden = tuple(self._gate.hidden)
        gone = [source for source in missing if not source.startswith(hidden)]
        if kept := [source for source in missing if source.startswith(hidden)]:
            self._warn(_not_pruned(kept, self._gate.hidden))
        if len(gone) >= _MANY and (emptied := _emptied(gone, membership.prefix, empty_folders())):
            gone = [source for source in gone if not source.startswith(tuple(emptied))]
            self._warn(_not_mounted(emptied))
        if gone and not self._gate.seen and not allow_empty:
            raise DocumentError(
                f"the ingest got no documents, and pruning would remove all {len(gone):,} documents of "
                f"{self._backend.location}; to remove them, ingest with allow_empty=True "
                "(twinvec ingest --prune --allow-empty)"
            )
        if gone and membership.added and membership.root is not None and membership.root.first:
            self._warn(taken_over_warning(len(gone), membership.root.name, would=dry_run))
        if dry_run:
            self._report.deleted = len(gone)
            return
        for _ in self._catalog.remove(gone):
            self._report.deleted += 1

    def _name_no_tenant(self, membership: Membership, *, allow_empty: bool) -> None:
        """Say that an ingest without documents prunes nothing: it does not name the tenant that has none any more."""
        if not any(map(membership.has, self._catalog.sources())):
            return
        key = self._description.tenant_key
        message = (
            f"the ingest got no documents, so it names no tenant, and pruning removes nothing from "
            f"{self._backend.location}; to remove the documents of a tenant, call "
            f"collection.delete(collection.find({{{key!r}: ...}})) (twinvec delete --filter {key}=...)"
        )
        if not allow_empty:
            raise DocumentError(message)
        self._warn(message)

    def _build_index(self) -> None:
        self._planner.advance(0, work=0, note="indexing vectors")
        try:
            self._backend.build_index(self._description.index)
        except StoreUnavailableError as error:  # searches work without the index, only more slowly
            logger.warning("no index was built: %s", error)
        self._planner.advance(0, work=0, note="")


def _emptied(gone: Sequence[str], prefix: str, empty_folders: Iterable[str]) -> dict[str, int]:
    """Return prefix of ids -> number of missing documents, for each folder that is empty now and held many."""
    empty = {prefix + each for each in empty_folders}
    folders = (source[: place + 1] for source in gone for place, letter in enumerate(source) if letter == "/")
    counts = Counter(each for each in folders if each in empty)
    return {below: count for below, count in counts.items() if count >= _MANY}


def _not_mounted(emptied: Mapping[str, int]) -> str:
    """Return the warning that documents of empty folders stay; ``emptied`` maps prefixes of ids to their numbers."""
    named = listed([f"{below} ({count:,})" for below, count in sorted(emptied.items())], NAMED)
    return (
        f"not pruned: {sum(emptied.values()):,} missing documents of folders that are empty, as if a disk were not "
        f"mounted: {named}; to remove the documents, delete the empty folder, or ingest with allow_empty=True (twinvec "
        "ingest --prune --allow-empty)"
    )


def _not_pruned(kept: Sequence[str], hidden: Mapping[str, int]) -> str:
    """Return the warning that missing documents stay; ``hidden`` maps prefixes of ids to numbers of failures."""
    failures = sum(number for below, number in hidden.items() if any(source.startswith(below) for source in kept))
    named = listed(sorted(kept), NAMED)
    counted = f"{len(kept):,} missing document{'' if len(kept) == 1 else 's'}"
    return f"not pruned: {counted}, which {failures:,} failure{'' if failures == 1 else 's'} may hide: {named}"


def _checked(given: Mapping[str, Sequence[float]], description: Description) -> dict[str, FloatArray]:
    """Return the caller's vectors by id; raise ``BadVectorError``, or ``ConfigurationError`` if none are allowed."""
    if given and description.chunking.enabled:
        raise ConfigurationError(
            "vectors are for whole documents, but the collection cuts documents into chunks: leave vectors out"
        )
    if given and description.states_dim is not None:
        raise ConfigurationError(
            "the collection also stores token states, which only its encoder computes: leave vectors out"
        )
    return {
        source: checked_vector(vector, description.dim, f"document {shown(source)}: ")
        for source, vector in given.items()
    }
