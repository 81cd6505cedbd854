"""Parts of an ingest: what one process writes for another one that leads the ingest (``leading``).

A part holds documents that are checked, compared with their records, and new or changed. A writer cuts, encodes and
commits them as ``Ingestion`` does, and leaves to the leader what an ingest does once: the average length, the words,
the index, and what killed writers have left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.ingest.ingestion import Ingestion
from twinvec_qdrant.ingest.pace import Pace
from twinvec_qdrant.ingest.planned import Changed
from twinvec_qdrant.records.commits import Catalog, Leftovers
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.settings import ChunkSettings


@dataclass(frozen=True, slots=True)
class Part:
    """Documents for one writer.

    Attributes:
        changed: The documents, each with its version and its record.
        chunking: How they are cut, with all that the leader has decided.
        left: The sources of which a killed writer may have left chunks.
        losses: How many writers of these documents have died.
    """

    changed: Sequence[Changed]
    chunking: ChunkSettings
    left: frozenset[str] = frozenset()
    losses: int = 0


@dataclass(slots=True)
class PartReport:
    """What a writer did with a part.

    Attributes:
        report: Counts of the part's documents.
        words: The words of the chunks that were written, for the collection's vocabulary.
        chunks: Chunks added less chunks removed.
    """

    report: IngestReport
    words: Counter[str] = field(default_factory=Counter)
    chunks: int = 0


class PartIngestion(Ingestion):
    """The writing of one part; the arguments are those of ``Ingestion``."""

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
                self._bring(iter(self._part.changed))
        finally:
            self._encoding.close()
            self._catalog.leave(self._drafts.values())
        return PartReport(self._report, *self._bm25.taken_words())

    def _begin(self) -> Leftovers:
        self._bm25.refresh()
        return Leftovers((), self._part.left)
