"""Work: documents that are to be written, cut into chunks, and the batches in which they are encoded and committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.chunking import Chunk
from twinvec_qdrant.records.schema import Record, canonical, chunk_id, digest, point_payload

BATCH_CHARACTERS = 256 * 1024
BATCH_CHUNKS = 1024
"""Of a batch, at most, but for a single large document: what a kill costs."""


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document to write.

    Attributes:
        document: It.
        payload: The user's payload, as JSON has it.
        version: Hash of all that decides the chunks.
        chunks: What it was cut into.
        keys: The hashes of the chunks' texts.
        old: The version in force, from which this one was planned.
    """

    document: Document
    payload: dict[str, Any]
    version: str
    chunks: list[Chunk]
    keys: list[str]
    old: Record | None

    @property
    def kept(self) -> frozenset[str]:
        """The ids of the chunks of the version in force."""
        return frozenset(self.old.chunks) if self.old else frozenset()

    def points(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The id and the payload of each chunk, without the revision of the commit."""
        source, title = self.document.id, self.document.title
        for chunk, key in zip(self.chunks, self.keys, strict=True):
            content = digest(key, chunk.heading, title, canonical(self.payload))
            own = {
                "kind": "chunk",
                "source": source,
                "position": chunk.position,
                "heading": chunk.heading,
                **({"title": title} if title else {}),
                "text": chunk.text,
                "content": key,
            }
            yield chunk_id(source, chunk.position, content), point_payload(own, self.payload)

    def planned_on(self, old: Record | None) -> PlannedDocument:
        """The same, where another version has come in force."""
        return replace(self, old=old)


def plan_document(document: Document, version: str, chunks: list[Chunk], old: Record | None) -> PlannedDocument:
    """A document that is new or changed."""
    return PlannedDocument(
        document, dict(document.payload), version, chunks, [digest(chunk.text) for chunk in chunks], old
    )


def texts(batch: Sequence[PlannedDocument]) -> dict[str, str]:
    """The different texts of a batch, by key."""
    return {key: chunk.text for work in batch for key, chunk in zip(work.keys, work.chunks, strict=True)}


def in_batches(works: Iterable[PlannedDocument]) -> Iterator[list[PlannedDocument]]:
    """Cut works into batches of about equal size."""
    batch: list[PlannedDocument] = []
    chunks = characters = 0
    for work in works:
        batch.append(work)
        chunks += len(work.chunks)
        characters += sum(len(chunk.text) for chunk in work.chunks)
        if chunks >= BATCH_CHUNKS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, chunks, characters = [], 0, 0
    if batch:
        yield batch
