"""Plans: which documents are new or changed, the chunks of each, and the batches in which they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import uuid4

from twinvec.arrays import FloatArray
from twinvec.errors import DocumentError, InputError
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.documents import Document
from twinvec.support.progress import Advance, unseen
from twinvec_qdrant.ingest.chunking import Chunk, Chunker
from twinvec_qdrant.records.commits import Catalog, Change
from twinvec_qdrant.records.schema import Record, canonical, chunk_id, digest, point_payload
from twinvec_qdrant.records.tenancy import FOREIGN, Tenants
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.stores.points import Point, States

BATCH_CHARACTERS = 256 * 1024
BATCH_CHUNKS = 1024
"""A batch is complete when it reaches one of these sizes. A kill costs at most the batches under way."""


class TextVectors(NamedTuple):
    """The dense vector of a text, and its token states if the collection keeps them."""

    dense: FloatArray
    states: States | None = None


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document to write, and its chunks with the hash of each text (``keys``).

    ``version`` is the hash of all that decides the chunks. ``old`` is the committed version that this plan starts from;
    None for a new document.
    """

    document: Document
    version: str
    chunks: list[Chunk]
    keys: list[str]
    old: Record | None

    def new_chunks(self) -> int:
        """Return the number of chunks that the committed version lacks."""
        kept = self._kept()
        return sum(identity not in kept for identity, _ in self._identified())

    def change(
        self, vectors: Mapping[str, TextVectors], weights: Iterator[tuple[SparseVector, int]], vector: str
    ) -> Change:
        """Return the commit of this document; ``vector`` names the dense vectors.

        ``vectors`` holds those of its texts by key. Each chunk takes the next of ``weights``: vector and term count.
        """
        source, revision, kept = self.document.id, uuid4().hex, self._kept()
        points, chunks, terms = [], [], 0
        for (identity, payload), key in zip(self._identified(), self.keys, strict=True):
            sparse, length = next(weights)
            dense, states = vectors[key]
            terms += length
            chunks.append(identity)
            if identity not in kept:
                points.append(Point(identity, {**payload, "revision": revision}, dense, sparse, vector, states))
        kept_payload = {} if chunks else self.document.payload
        return Change(Record(source, self.version, revision, tuple(chunks), terms, kept_payload), points, self.old)

    def _kept(self) -> frozenset[str]:
        return frozenset(self.old.chunks) if self.old else frozenset()

    def _identified(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the id and the payload of each chunk, without the revision of the commit."""
        source, title = self.document.id, self.document.title
        payload = canonical(self.document.payload)
        for chunk, key in zip(self.chunks, self.keys, strict=True):
            own = {
                "kind": "chunk",
                "source": source,
                "position": chunk.position,
                "heading": chunk.heading,
                **({"title": title} if title else {}),
                "text": chunk.text,
                "content": key,
            }
            content = digest(key, chunk.heading, title, payload)
            yield chunk_id(source, chunk.position, content), point_payload(own, self.document.payload)


class Planner:
    """Plans the documents of one ingest; counts unchanged and refused ones in ``report`` and on the progress bar."""

    def __init__(self, catalog: Catalog, tenants: Tenants, chunker: Chunker, report: IngestReport) -> None:
        self._catalog = catalog
        self._tenants = tenants
        self._chunker = chunker
        self._report = report
        self.advance: Advance = unseen

    def planned(self, groups: Iterable[Sequence[Document]], versions: Mapping[str, str]) -> Iterator[PlannedDocument]:
        """Yield the new and changed documents; ``versions`` holds the hash of each document by id."""
        for group in groups:
            records = self._catalog.records(document.id for document in group)
            changed = []
            for document in group:
                record = records.get(document.id)
                if record and record.version == versions[document.id]:
                    self.unchanged()
                else:
                    changed.append(document)
            foreign = self._tenants.foreign(changed, records)
            for document in changed:
                try:
                    if document.id in foreign:
                        raise DocumentError(FOREIGN)
                    chunks = self._chunker.chunks(document)
                except InputError as error:
                    self.refused(document.id, str(error))
                else:
                    keys, old = [digest(chunk.text) for chunk in chunks], records.get(document.id)
                    yield PlannedDocument(document, versions[document.id], chunks, keys, old)

    def planned_again(self, lost: Sequence[PlannedDocument]) -> list[PlannedDocument]:
        """Return the same documents, planned on the versions that other writers have committed meanwhile."""
        records = self._catalog.records(each.document.id for each in lost)
        foreign = self._tenants.foreign((each.document for each in lost), records)
        for source in foreign:
            self._report.fail(source, FOREIGN)
        return [replace(each, old=records.get(each.document.id)) for each in lost if each.document.id not in foreign]

    def unchanged(self) -> None:
        """Count a document that needs no writing."""
        self._report.unchanged += 1
        self.advance(1)

    def refused(self, source: str, reason: str) -> None:
        """Count a document that fails before it is planned."""
        self._report.fail(source, reason)
        self.advance(1, failed=1)


def texts(batch: Iterable[PlannedDocument]) -> dict[str, str]:
    """Return the distinct texts of a batch, by key."""
    return {key: chunk.text for planned in batch for key, chunk in zip(planned.keys, planned.chunks, strict=True)}


def document_batches(documents: Iterable[PlannedDocument]) -> Iterator[list[PlannedDocument]]:
    """Cut documents into batches of about equal size; yield each as soon as it is complete."""
    batch: list[PlannedDocument] = []
    chunks = characters = 0
    for planned in documents:
        batch.append(planned)
        chunks += len(planned.chunks)
        characters += sum(len(chunk.text) for chunk in planned.chunks)
        if chunks >= BATCH_CHUNKS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, chunks, characters = [], 0, 0
    if batch:
        yield batch
