"""Find the largest documents of an ingest, and warn if a few documents have most of the new chunks.

Among source code, these are often minified, generated or lock files. Searches then find little else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from twinvec.support.checks import shortened
from twinvec_qdrant.report import NAMED

_FEWEST_DOCUMENTS = 20
_FEWEST_CHUNKS = 1000
_SHARE = 10  # few documents are at most 1/10 of all; a large document has at least 1/10 of the new chunks


@dataclass(slots=True)
class LargestDocuments:
    """Counts the new chunks of each document, and keeps the ids of the largest documents only.

    Attributes:
        sizes: Number of documents by their number of chunks.
        largest: (number of chunks, id) of the largest documents, the largest first.
    """

    sizes: Counter[int] = field(default_factory=Counter)
    largest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, source: str, chunks: int) -> None:
        """Count a new or updated document."""
        self.sizes[chunks] += 1
        if len(self.largest) < NAMED or chunks > self.largest[-1][0]:
            self._keep([(chunks, source)])

    def merge(self, other: LargestDocuments) -> None:
        """Count the documents of another part of the ingest."""
        self.sizes.update(other.sizes)
        self._keep(other.largest)

    def warning(self, prefix: str = "") -> str:
        """Return the warning that few documents have most of the new chunks, or ""; ids lose the prefix."""
        documents, chunks = self.sizes.total(), sum(size * number for size, number in self.sizes.items())
        if documents < _FEWEST_DOCUMENTS or chunks < _FEWEST_CHUNKS:
            return ""
        few, held = self._majority(chunks)
        if few > max(documents // _SHARE, 1):
            return ""
        for size, _ in self.largest[few:]:  # the other large documents
            if size * _SHARE >= chunks:
                few, held = few + 1, held + size
        largest = self.largest[:few]
        named = [each for each in largest if each[0] * _SHARE >= chunks] or largest
        listed = ", ".join(f"{shortened(source.removeprefix(prefix))} ({size:,})" for size, source in named)
        return (
            f"{few:,} of {documents:,} documents hold{'s' if few == 1 else ''} {held:,} of {chunks:,} new chunks: "
            f"{listed}{', ...' if few > len(named) else ''}; if they are minified, generated or lock files, "
            "leave them out: --exclude PATTERN"
        )

    def _majority(self, chunks: int) -> tuple[int, int]:
        """Return how many of the largest documents have more than half of the chunks, and how many chunks they have."""
        few = held = 0
        for size in sorted(self.sizes, reverse=True):
            number = min(self.sizes[size], (chunks // 2 - held) // size + 1) if size else 0
            few, held = few + number, held + number * size
            if held * 2 > chunks:
                break
        return few, held

    def _keep(self, found: list[tuple[int, str]]) -> None:
        self.largest = sorted([*self.largest, *found], key=lambda each: (-each[0], each[1]))[:NAMED]
