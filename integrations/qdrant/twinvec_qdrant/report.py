"""Reports on an ingest, a verification, a migration, a reindexing, a push, an adoption or a backup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from twinvec.errors import IngestError
from twinvec.support.checks import shortened

NAMED = 3
"""Largest number of documents that a warning names."""

_MOST_SKIPS = 1000

Report = TypeVar("Report", "VerifyReport", "RepairReport", "MigrationReport", "IndexReport", "Backup")


def report_of(kind: type[Report], values: Mapping[str, Any]) -> Report:
    """Build a report from its JSON form; ignore fields of newer versions."""
    return kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})


@dataclass(slots=True)
class IngestReport:
    """Counts of one ingest; the first five count documents.

    Attributes:
        new: Added to the collection.
        updated: Replaced, because the text, the title or the payload has changed.
        unchanged: Already in the collection; nothing was encoded or written.
        deleted: Removed because the ingested documents did not include them (``prune``).
        failed: Not ingested; an older version stays in the collection.
        failures: (source, reason) of each failed document.
        chunks: Chunks written.
        encoded: Texts of chunks encoded; the other chunks kept their vectors.
        truncated: Chunks written that are longer than the model's token limit.
        unknown: Chunks written that consist mostly of words that the model does not know, as in another language.
        empty: Documents without text, such as an empty file or a PDF of images. They are not in the collection; an
            older version with text stays until an ingest prunes.
        empties: (source, reason) of each empty document.
        warnings: The logged warnings: about chunks with unknown words, few documents with most of the chunks, texts
            without ids that replaced others, documents that were not pruned, and pruned documents that had no source.
    """

    new: int = 0
    updated: int = 0
    unchanged: int = 0
    deleted: int = 0
    failed: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)
    chunks: int = 0
    encoded: int = 0
    truncated: int = 0
    unknown: int = field(default=0, kw_only=True)
    empty: int = field(default=0, kw_only=True)
    empties: list[tuple[str, str]] = field(default_factory=list, kw_only=True)
    warnings: list[str] = field(default_factory=list, kw_only=True)

    @property
    def all_failed(self) -> bool:
        """Whether every document failed; False if there was none."""
        return bool(self.failed) and not self.new + self.updated + self.unchanged + self.empty

    def fail(self, source: str, reason: str) -> None:
        """Count one more failure."""
        self.failed += 1
        self.failures.append((source, reason))

    def count_empty(self, source: str, reason: str) -> None:
        """Count one more document without text."""
        self.empty += 1
        self.empties.append((source, reason))

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the counts of another report, or of its JSON form; a missing field counts as 0."""
        for each in fields(IngestReport):
            found = other.get(each.name, 0)
            if isinstance(found, list):
                getattr(self, each.name).extend(tuple(item) if isinstance(item, list) else item for item in found)
            elif found:
                setattr(self, each.name, getattr(self, each.name) + found)

    def __str__(self) -> str:
        counts = (f"{getattr(self, name)} {name}" for name in ("new", "updated", "unchanged", "deleted", "failed"))
        return ", ".join(counts) + (f", {self.empty} empty" if self.empty else "")


def unknown_warning(chunks: int) -> str:
    """Return the warning that this many chunks consist mostly of words that the model does not know."""
    counted = "1 chunk consists" if chunks == 1 else f"{chunks:,} chunks consist"
    return (
        f"{counted} mostly of words that the model does not know, so searches by vectors can hardly tell them apart; "
        "if they are in another language, choose a model that reads it (twinvec migrate --to MODEL)"
    )


def taken_over_warning(documents: int, source: str, *, would: bool) -> str:
    """Return the warning that pruning the first named source removes documents ingested without a source."""
    counted = "1 document that was" if documents == 1 else f"{documents:,} documents that were"
    done = "would be removed" if would else ("is removed" if documents == 1 else "are removed")
    return (
        f"{counted} ingested without a source {done}: they belong to the first named source, {source!r}, "
        "which does not contain them; to keep them, ingest without prune"
    )


def unused_warning(ids: Sequence[str]) -> str:
    """Return the warning that the caller gave vectors for these ids, which no document has."""
    counted = "1 vector has the id" if len(ids) == 1 else f"{len(ids):,} vectors have the ids"
    named = ", ".join(map(repr, ids[:NAMED])) + (", ..." if len(ids) > NAMED else "")
    return f"{counted} of no document in this ingest: {named}"


def failed_warning(report: IngestReport, *, would: bool) -> str:
    """Return the warning that documents failed, which quotes the first reason."""
    source, reason = report.failures[0]
    counted = "1 document" if report.failed == 1 else f"{report.failed:,} documents"
    first = "" if report.failed == 1 else "the first: "
    return f"{counted} {'would fail' if would else 'failed'}: {first}{shortened(source)}: {reason}"


def all_failed(report: IngestReport) -> IngestError:
    """Return the error that every document failed, which quotes the first reason."""
    source, reason = report.failures[0]
    counted = "the only document failed" if report.failed == 1 else f"all {report.failed:,} documents failed, the first"
    return IngestError(f"{counted}: {shortened(source)}: {reason}", report)


@dataclass(slots=True)
class VerifyReport:
    """Result of ``Collection.verify``.

    Attributes:
        sources: Committed sources.
        chunks: Chunks that the records list.
        incomplete: Sources that lack chunks or vectors, until they are ingested again.
        forgotten: Sources with chunks but without a record; searches do not show them, and more chunks may be missing.
        stray: Chunks that no record lists, left by a writer that died; searches do not show them.
        repaired: Whether stray chunks were removed, and incomplete and forgotten sources marked for the next ingest.
    """

    sources: int = 0
    chunks: int = 0
    incomplete: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    stray: int = 0
    repaired: bool = False

    @property
    def sound(self) -> bool:
        """Whether no problem was found."""
        return not self.incomplete and not self.forgotten and not self.stray


@dataclass(slots=True)
class RepairReport(VerifyReport):
    """Result of ``Collection.verify`` for a collection that was opened with ``repair`` and had damaged files.

    Attributes:
        damaged: Files that differ from what was written; empty if the engine alone found the damage.
        lost: Number of documents that have left no trace; if it is not 0, ingest all documents again. It is 0 if the
            number of documents before the damage is unknown. That happens after a kill, if only an older version of
            twinvec has written to the collection.
        lost_notes: Number of lost notes; 0 after a kill, because the number of notes before the damage is unknown.
            Notes hold the list of the collection's sources, the words for correcting queries, and data of the
            frameworks' stores.
    """

    damaged: list[str] = field(default_factory=list)
    lost: int = 0
    lost_notes: int = 0

    @property
    def sound(self) -> bool:
        """False, because files were damaged."""
        return False


@dataclass(slots=True)
class MigrationReport:
    """Result of a migration.

    Attributes:
        model: Name of the new model.
        encoded: Chunks encoded; an earlier, unfinished migration may have encoded others.
        truncated: Encoded chunks that are longer than the new model's token limit.
        switched: Whether the collection now uses the new model.
    """

    model: str
    encoded: int = 0
    truncated: int = 0
    switched: bool = False


@dataclass(frozen=True, slots=True)
class IndexReport:
    """The state of an index.

    Attributes:
        settings: The settings in words.
        chunks: Chunks in the collection.
        indexed: Approximate number of chunks in the index; a server continues to build it after the call. Searches
            compare the other chunks one by one.
        recall: Share of the exact ten nearest chunks that searches find, for sampled vectors; None without chunks,
            or if the server forbids exact search.
        payload_indexes: Type of the index of every payload key that has one.
        erased: Whether deleted and replaced texts are now erased from the files of an embedded collection; False if
            the vectors were not indexed anew, and on a server.
    """

    settings: str
    chunks: int
    indexed: int
    recall: float | None
    payload_indexes: dict[str, str] = field(default_factory=dict)
    erased: bool = False


@dataclass(slots=True)
class PushReport:
    """Counts of a push; all but ``chunks`` count documents.

    Attributes:
        copied: Written to the other store.
        unchanged: Already in the other store, in the same version.
        deleted: Removed from the other store, because this collection lacks them (``prune``).
        missed: Not copied: another writer changed them meanwhile, or they lack chunks or records (see ``verify``).
        chunks: Chunks written.
    """

    copied: int = 0
    unchanged: int = 0
    deleted: int = 0
    missed: list[str] = field(default_factory=list)
    chunks: int = 0


@dataclass(slots=True)
class AdoptReport:
    """Result of an adoption; counts are numbers of points.

    Attributes:
        layout: Name of the framework.
        adopted: Points that became documents of twinvec; with ``dry_run``, points that would become documents.
        unchanged: Points that were documents of twinvec already.
        skipped: Points that stay as they are; searches of twinvec do not find them.
        skips: (point id, reason) of the first 1,000 skipped points.
        removed: Documents whose points the framework's application has deleted.
        compared: Number of sampled vectors that were compared with the model's vectors.
        lowest_cosine: The lowest cosine of the sample; None without points.
    """

    layout: str
    adopted: int = 0
    unchanged: int = 0
    skipped: int = 0
    skips: list[tuple[str, str]] = field(default_factory=list)
    removed: int = 0
    compared: int = 0
    lowest_cosine: float | None = None

    def skip(self, point: str, reason: str) -> None:
        """Count one more point that is skipped."""
        self.skipped += 1
        if len(self.skips) < _MOST_SKIPS:
            self.skips.append((point, reason))


@dataclass(frozen=True, slots=True)
class Backup:
    """Description of a backup: its collection, its time, and its numbers of points.

    Attributes:
        collection: Name of the collection.
        time: Time of the copy, in UTC (ISO 8601).
        points: Number of chunks, records (one for each document) and notes.
    """

    collection: str
    time: str
    points: Mapping[str, int] = field(default_factory=dict)
