"""An ingest with helpers: other processes parse files and encode texts for it, or write parts of it.

In a store with one writer (``Backend.exclusive``), the helpers encode for this writer. A server takes several writers:
the leading process reads, checks and compares the documents, and the helpers cut, encode and commit the new and changed
documents in parts. If files are slow to parse, the leader reads only their bytes, and the helpers parse them
(``reading.root``). The leader alone writes the vocabulary and the index, and removes the chunks of killed writers. The
first documents decide the ways of cutting and the average length before a helper writes. So the collection is the same
as without helpers.

If a helper dies, another helper gets the documents that were not committed. A part whose helpers die repeatedly is
halved again and again, until the document that causes the deaths is found.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import tee
from typing import Any, Protocol

from twinvec.errors import InputError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.ingest.ingestion import Ingestion
from twinvec_qdrant.ingest.largest import LargestDocuments
from twinvec_qdrant.ingest.pace import Pace
from twinvec_qdrant.ingest.planned import BATCH_CHARACTERS, BATCH_CHUNKS, Changed, PlannedDocument, document_batches
from twinvec_qdrant.records.commits import Catalog, Leftovers
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.schema import Record
from twinvec_qdrant.records.writer_process import Writer
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.settings import ChunkSettings

_FIRST_SHARE = 16  # the first part has 1/16 of a part's usual size, so that all helpers begin soon
_HALVED = 2  # a part is halved after this many of its helpers have died
_MOST_LOSSES = 3  # a document alone in its part fails after this many further helpers have died


@dataclass(frozen=True, slots=True)
class Part:
    """Documents for one writer.

    Attributes:
        changed: The documents, each with its version and its record.
        chunking: How the documents are cut, with the leader's decisions.
        left: Ids of the documents that may have chunks of a killed writer.
        losses: How many helpers have died while they wrote these documents.
    """

    changed: Sequence[Changed]
    chunking: ChunkSettings
    left: frozenset[str] = frozenset()
    losses: int = 0


@dataclass(slots=True)
class PartReport:
    """The result of writing a part.

    Attributes:
        report: Counts of the part's documents.
        words: The words of the written chunks with their counts, for the collection's vocabulary.
        chunks: Number of added chunks minus number of removed chunks.
        largest: The largest documents of the part.
    """

    report: IngestReport
    words: Counter[str] = field(default_factory=Counter)
    chunks: int = 0
    largest: LargestDocuments = field(default_factory=LargestDocuments)


class Helpers(Protocol):
    """Other processes that help with an ingest."""

    def with_results(self, items: Iterator[Any]) -> Iterator[Any]:
        """Let helpers run the calls that are among ``items``; yield all items in order, with results in place of calls.

        Items are read ahead as far as the helpers have room. A call with much data runs alone. If the helper of a call
        dies, another helper runs the call. After several deaths, the result is ``HelperCall.lost``.
        """

    def encoder(self, encoder: SpaceEncoder) -> SpaceEncoder:
        """Return an encoder with the same vectors that lets the helpers encode documents."""

    def written(self, parts: Iterator[Part], encoder: SpaceEncoder) -> Iterator[tuple[Part, PartReport | None]]:
        """Let helpers write parts (``Collection.write_part``), and yield each part when it is done, in any order.

        The helpers open the collection with the model of ``encoder``. The report is None if the helper has died, or has
        waited in vain for a busy server. In the second case, the part is yielded with ``losses`` lowered by one. Parts
        are read ahead only as far as the helpers have room.
        """

    def idle(self) -> Collection[Writer]:
        """Return the helpers' processes that write nothing now: dead processes, and processes without a part."""


class LedIngestion(Ingestion):
    """An ingest in which ``helpers`` cut, encode and commit documents; see ``Ingestion`` for the other arguments."""

    def __init__(
        self,
        catalog: Catalog,
        description: Description,
        encoder: SpaceEncoder,
        report: IngestReport,
        refreshed: Callable[[], tuple[Description, SpaceEncoder]],
        helpers: Helpers,
    ) -> None:
        super().__init__(catalog, description, encoder, {}, report, refreshed)
        self._helpers = helpers
        self._encoder = encoder
        self._lost: deque[Part] = deque()

    def _write_changed(self, changed: Iterator[Changed]) -> None:
        left = self._begin()
        parts = self._parts(self._with_average(changed), left.sources)
        while True:
            for part, done in self._helpers.written(self._next_parts(parts), self._encoder):
                if done is None:
                    self._lost += self._again(part)
                else:
                    self._add(part, done)
            if not self._lost:
                break
        self._catalog.clear(left)
        self._catalog.clear(self._catalog.leftovers(self._helpers.idle()))

    def _next_parts(self, parts: Iterator[Part]) -> Iterator[Part]:
        while (part := self._lost.popleft() if self._lost else next(parts, None)) is not None:
            yield part

    def _with_average(self, changed: Iterator[Changed]) -> Iterator[Changed]:
        """Set a new collection's average length by its first batch, as an ingest without helpers does.

        Return all documents, also those of the first batch.
        """
        if self._bm25.average_length:
            return changed
        ahead, changed = tee(changed)
        batch = next(document_batches(self._cut(ahead)), [])
        self._bm25.begin([chunk.embedded for planned in batch for chunk in planned.chunks])
        return changed

    def _cut(self, changed: Iterable[Changed]) -> Iterator[PlannedDocument]:
        """Cut documents, and skip documents that cannot be cut, since the writing helper reports the failure."""
        for each in changed:
            try:
                yield self._planner.cut(each)
            except InputError:
                continue

    def _parts(self, changed: Iterator[Changed], left: frozenset[str]) -> Iterator[Part]:
        part: list[Changed] = []
        characters, share = 0, _FIRST_SHARE
        for each in changed:
            part.append(each)
            characters += len(each.document.text)
            if len(part) * share >= BATCH_CHUNKS or characters * share >= BATCH_CHARACTERS:
                yield self._part(part, left)
                part, characters, share = [], 0, max(share // 2, 1)
        if part:
            yield self._part(part, left)

    def _part(self, changed: Sequence[Changed], left: frozenset[str]) -> Part:
        return Part(changed, self._cutting.settings, left.intersection(each.document.id for each in changed))

    def _add(self, part: Part, done: PartReport) -> None:
        self._report.add(asdict(done.report))
        self._largest.merge(done.largest)
        known = (each.document.id for each in part.changed if each.old is not None and each.old.version)
        self._replaced += len(self._gate.unnamed.intersection(known))
        self._bm25.add_words(done.words, done.chunks)
        self._advance(part.changed, failed=done.report.failed)

    def _advance(self, changed: Sequence[Changed], failed: int = 0) -> None:
        self._planner.advance(len(changed), failed=failed, work=sum(each.work for each in changed))

    def _again(self, part: Part) -> list[Part]:
        """Count the documents that a dead helper has committed; return the others in parts, to be written again."""
        records = self._catalog.records(each.document.id for each in part.changed)
        uncommitted = []
        for each in part.changed:
            record = records.get(each.document.id)
            if record is not None and record.version == each.version:
                self._add_committed(each, record)
            else:
                uncommitted.append(each._replace(old=record))
        left = frozenset(each.document.id for each in uncommitted)
        again = replace(part, changed=uncommitted, left=left, losses=part.losses + 1)
        if len(uncommitted) > 1 and again.losses >= _HALVED:
            middle = len(uncommitted) // 2
            return [replace(again, changed=half) for half in (uncommitted[:middle], uncommitted[middle:])]
        if uncommitted and again.losses >= _HALVED + _MOST_LOSSES:
            for each in uncommitted:
                self._planner.refused(each.document.id, "every process that worked on the document died", each.work)
            return []
        return [again] if uncommitted else []

    def _add_committed(self, changed: Changed, record: Record) -> None:
        planned = self._planner.cut(changed)
        written = planned.new_chunks()
        self._count(planned, written)
        self._report.encoded += written
        self._bm25.changed(changed.old, record)
        self._bm25.written(chunk.text for chunk in planned.chunks)
        self._advance([changed])


class PartIngestion(Ingestion):
    """Writes one part of an ingest; see ``Ingestion`` for the other arguments."""

    def __init__(
        self,
        catalog: Catalog,
        description: Description,
        encoder: SpaceEncoder,
        part: Part,
        refreshed: Callable[[], tuple[Description, SpaceEncoder]],
        pace: Pace,
    ) -> None:
        decided = description.model_copy(update={"chunking": part.chunking})
        super().__init__(catalog, decided, encoder, {}, IngestReport(), refreshed, pace)
        self._part = part

    def write(self) -> PartReport:
        """Cut, encode and commit the documents of the part."""
        try:
            with self._backend.writing:
                self._write_changed(iter(self._part.changed))
        finally:
            self._encoding.close()
            self._catalog.leave(self._drafts.values())
        return PartReport(self._report, *self._bm25.taken_words(), self._largest)

    def _begin(self) -> Leftovers:
        self._bm25.refresh()
        return Leftovers((), self._part.left)


def led_ingestion(
    catalog: Catalog,
    description: Description,
    encoder: SpaceEncoder,
    report: IngestReport,
    refreshed: Callable[[], tuple[Description, SpaceEncoder]],
    helpers: Helpers,
) -> Ingestion:
    """Return the kind of ingest with helpers that fits the store; see ``Ingestion`` for the other arguments."""
    if not catalog.backend.exclusive:
        return LedIngestion(catalog, description, encoder, report, refreshed, helpers)

    def with_helpers() -> tuple[Description, SpaceEncoder]:
        now, its_encoder = refreshed()
        return now, helpers.encoder(its_encoder)

    return Ingestion(catalog, description, helpers.encoder(encoder), {}, report, with_helpers)
