"""What an ingest, a verification, a migration, an index or a push came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class IngestReport:
    """Counts of one ingest; the first five are of documents.

    Attributes:
        new: Not in the collection before.
        updated: In it with another text, title or payload.
        unchanged: In it as they came; nothing was encoded or written.
        deleted: Removed because they were not among the documents (``prune``).
        failed: Refused or broken; an older version stays as it was.
        failures: (source, reason) of each that failed.
        chunks: Chunks written.
        encoded: Texts of chunks that were encoded; the others kept the vector they had.
        truncated: Chunks written that are longer than the model reads.
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

    def fail(self, source: str, reason: str) -> None:
        """Count one more failure."""
        self.failed += 1
        self.failures.append((source, reason))

    def __str__(self) -> str:
        counts = (f"{getattr(self, name)} {name}" for name in ("new", "updated", "unchanged", "deleted", "failed"))
        return ", ".join(counts)


@dataclass(slots=True)
class VerifyReport:
    """What a collection was found to hold.

    Attributes:
        sources: Committed sources.
        chunks: Chunks that they list.
        incomplete: Sources of which chunks, or their vectors, are missing, until they have been ingested again.
        forgotten: Sources that have chunks and no record: never shown, and nothing says whether more is missing.
        stray: Chunks that their source does not list: left over by a writer that died, and never shown.
        repaired: Whether stray chunks were removed, incomplete sources marked, and forgotten ones recorded and marked.
    """

    sources: int = 0
    chunks: int = 0
    incomplete: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    stray: int = 0
    repaired: bool = False

    @property
    def sound(self) -> bool:
        """Whether nothing was found that should not be."""
        return not self.incomplete and not self.forgotten and not self.stray


@dataclass(slots=True)
class MigrationReport:
    """What a migration did.

    Attributes:
        model: Name of the new model.
        encoded: Chunks encoded; those that had their new vector already are not among them.
        truncated: Encoded chunks that are longer than the new model reads.
        switched: Whether the new model is in force.
    """

    model: str
    encoded: int = 0
    truncated: int = 0
    switched: bool = False


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What an index is and finds.

    Attributes:
        settings: In words.
        chunks: How many there are.
        indexed: About how many of their vectors are in the index; the others are compared one by one. A server goes on
            building after the call.
        recall: The share of the ten nearest chunks that searches find, over some of the stored vectors; None where
            there are none.
    """

    settings: str
    chunks: int
    indexed: int
    recall: float | None


@dataclass(slots=True)
class PushReport:
    """What a push did; counts are of documents but for ``chunks``.

    Attributes:
        copied: Written to the other store.
        unchanged: There already, in the same version.
        deleted: Removed there because they are not here (``prune``).
        missed: Not copied: chunks of theirs, or their records, are gone, changed by a writer meanwhile or lost
            (``Collection.verify``), or were lost and have not been ingested again.
        chunks: Chunks written.
    """

    copied: int = 0
    unchanged: int = 0
    deleted: int = 0
    missed: list[str] = field(default_factory=list)
    chunks: int = 0
