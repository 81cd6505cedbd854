"""Plans: which documents are new or changed, the chunks of each, and the batches in which they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from twinvec.arrays import FloatArray
from twinvec.errors import InputError
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.documents import Document
from twinvec.support.progress import Advance, unseen
from twinvec_qdrant.framework_layout import Layout
from twinvec_qdrant.ingest.cutting.chunking import Chunk, Chunker
from twinvec_qdrant.records.commits import Catalog, Change, Draft
from twinvec_qdrant.records.description import Generation
from twinvec_qdrant.records.schema import (
    Record,
    canonical,
    chunk_content,
    chunk_id,
    chunk_key,
    digest,
    hidden_field,
    point_payload,
)
from twinvec_qdrant.records.tenancy import FOREIGN, Tenants
from twinvec_qdrant.report import IngestReport
from twinvec_qdrant.stores.points import Point, States

BATCH_CHARACTERS = 1024 * 1024
BATCH_CHUNKS = 1024
"""A batch is complete when it reaches one of these sizes; it is encoded and written in portions (``pace``)."""


class TextVectors(NamedTuple):
    """The dense vector of a chunk, and its token states if the collection keeps them."""

    dense: FloatArray
    states: States | None = None


class WeighedText(NamedTuple):
    """The dense, sparse and token vectors of a chunk, and its number of terms (``length``)."""

    vectors: TextVectors
    sparse: SparseVector
    length: int


@dataclass(frozen=True, slots=True)
class PlannedDocument:
    """A document to write, with its chunks.

    ``keys`` has the hash of each chunk's embedded text, and ``ids`` the point id of each chunk. ``version`` is the hash
    of everything that decides the chunks. ``old`` is the record of the committed version that this plan starts from;
    None for a new document. ``work`` is the amount that was read for the document (``DocumentGate.work``). ``layout``
    is the layout of an adopted collection, else None.
    """

    document: Document
    version: str
    chunks: list[Chunk]
    keys: list[str]
    ids: list[str]
    old: Record | None
    work: int
    layout: Layout | None

    def new_chunks(self) -> int:
        """Return the number of chunks that the committed version lacks."""
        return len(self.ids) - len(self._kept().intersection(self.ids))

    @property
    def replaces_text(self) -> bool:
        """Whether a complete version of the document with other chunks is committed."""
        return self.old is not None and bool(self.old.version) and self.old.chunks != tuple(self.ids)

    def payloads(self) -> Iterator[Mapping[str, Any]]:
        """Yield the user's payload of the document, or of each chunk if these differ."""
        paged = [chunk for chunk in self.chunks if chunk.page is not None]
        yield from (_chunk_payload(self.document, chunk) for chunk in paged)
        if not paged:
            yield self.document.payload

    def points(self, rows: Iterable[int], chunks: Mapping[str, WeighedText], vector: str, revision: str) -> list[Point]:
        """Return the points of the chunks in ``rows`` that the committed version lacks.

        ``chunks`` has the vectors of each chunk by key, and ``vector`` is the name of the dense vectors.
        """
        kept = self._kept()
        points = []
        for row in rows:
            if self.ids[row] not in kept:
                (dense, states), sparse, _ = chunks[self.keys[row]]
                points.append(Point(self.ids[row], self._payload(row, revision), dense, sparse, vector, states))
        return points

    def change(
        self, chunks: Mapping[str, WeighedText], model: Generation, revision: str, draft: Draft | None
    ) -> Change:
        """Return the commit of this document: its record and its ``points``, with vectors of the ``model``."""
        points = self.points(range(len(self.ids)), chunks, model.vector, revision)
        terms = sum(chunks[key].length for key in self.keys)
        kept_payload = {} if self.ids else self.document.payload
        record = Record(self.document.id, self.version, revision, tuple(self.ids), terms, kept_payload)
        return Change(record, points, self.old, draft, model.space)

    def _kept(self) -> frozenset[str]:
        return frozenset(self.old.chunks) if self.old else frozenset()

    def _payload(self, row: int, revision: str) -> dict[str, Any]:
        chunk, title = self.chunks[row], self.document.title
        own = {
            "kind": "chunk",
            "source": self.document.id,
            "position": chunk.position,
            "heading": chunk.heading,
            **({"title": title} if title else {}),
            "text": chunk.text,
            "content": self.keys[row],
            **hidden_field(self.document.hidden),
        }
        if chunk.embedded != chunk.text:
            own |= {"content": digest(chunk.text), "embedded": chunk.embedded, "key": self.keys[row]}
        payload = _chunk_payload(self.document, chunk)
        foreign = {} if self.layout is None else self.layout.foreign(chunk.text, payload)
        return {**foreign, **point_payload(own, payload), "revision": revision}


class Changed(NamedTuple):
    """A new or changed document: its version, its record if it has one, and the work of reading it."""

    document: Document
    version: str
    old: Record | None
    work: int


class Planner:
    """Plans the documents of one ingest; reports unchanged and refused documents, and moves the progress bar."""

    def __init__(
        self, catalog: Catalog, tenants: Tenants, chunker: Chunker, report: IngestReport, layout: Layout | None
    ) -> None:
        self._catalog = catalog
        self._layout = layout
        self._tenants = tenants
        self._chunker = chunker
        self._report = report
        self.advance: Advance = unseen

    def changed(
        self, groups: Iterable[Sequence[Document]], versions: Mapping[str, str], work: MutableMapping[str, int]
    ) -> Iterator[Changed]:
        """Yield the new and changed documents; ``versions`` and ``work`` are ``DocumentGate.seen`` and ``.work``."""
        for group in groups:
            records = self._catalog.records(document.id for document in group)
            changed = []
            for document in group:
                record = records.get(document.id)
                if record and record.version == versions[document.id]:
                    self.unchanged(work.pop(document.id))
                else:
                    changed.append(document)
            foreign = self._tenants.foreign(changed, records)
            for document in changed:
                if document.id in foreign:
                    self.refused(document.id, FOREIGN, work.pop(document.id))
                else:
                    version, old = versions[document.id], records.get(document.id)
                    yield Changed(document, version, old, work.pop(document.id))

    def planned(self, changed: Iterable[Changed]) -> Iterator[PlannedDocument]:
        """Cut documents into chunks; refuse documents that cannot be cut."""
        for each in changed:
            try:
                planned = self.cut(each)
            except InputError as error:
                self.refused(each.document.id, str(error), each.work)
            else:
                yield planned

    def cut(self, changed: Changed) -> PlannedDocument:
        """Return a document with its chunks; raise ``InputError`` if it cannot be cut."""
        document, version, old, work = changed
        chunks = self._chunker.chunks(document)
        keys = [chunk_key(chunk.text, chunk.embedded) for chunk in chunks]
        payload = canonical(document.payload)
        ids = []
        for chunk, key in zip(chunks, keys, strict=True):
            own = payload if chunk.page is None else canonical(_chunk_payload(document, chunk))
            content = chunk_content(key, chunk.heading, document.title, own, document.hidden)
            ids.append(chunk_id(document.id, chunk.position, content))
        return PlannedDocument(document, version, chunks, keys, ids, old, work, self._layout)

    def planned_again(self, lost: Sequence[PlannedDocument]) -> list[PlannedDocument]:
        """Plan documents again, to replace the versions that other writers have committed meanwhile."""
        records = self._catalog.records(each.document.id for each in lost)
        foreign = self._tenants.foreign((each.document for each in lost), records)
        for source in foreign:
            self._report.fail(source, FOREIGN)
        return [replace(each, old=records.get(each.document.id)) for each in lost if each.document.id not in foreign]

    def unchanged(self, work: int = 0) -> None:
        """Count a document that is unchanged, and so is not written."""
        self._report.unchanged += 1
        self.advance(1, work=work)

    def empty(self, source: str, reason: str) -> None:
        """Count a document without text."""
        self._report.count_empty(source, reason)
        self.advance(1, work=0)

    def refused(self, source: str, reason: str, work: int = 0) -> None:
        """Count a document that fails before it is planned."""
        self._report.fail(source, reason)
        self.advance(1, failed=1, work=work)


def _chunk_payload(document: Document, chunk: Chunk) -> Mapping[str, Any]:
    """Return the user's payload of a chunk: the document's payload, with the chunk's ``page`` if it is known."""
    return document.payload if chunk.page is None else {"page": chunk.page, **document.payload}


def distinct(batch: Iterable[PlannedDocument]) -> dict[str, Chunk]:
    """Return one chunk for each key in a batch; chunks with the same key have the same vectors."""
    return {key: chunk for planned in batch for key, chunk in zip(planned.keys, planned.chunks, strict=True)}


def document_batches(documents: Iterable[PlannedDocument]) -> Iterator[list[PlannedDocument]]:
    """Cut documents into batches of about equal size; yield each as soon as it is complete."""
    batch: list[PlannedDocument] = []
    chunks = characters = 0
    for planned in documents:
        batch.append(planned)
        chunks += len(planned.chunks)
        characters += sum([len(chunk.embedded) for chunk in planned.chunks])
        if chunks >= BATCH_CHUNKS or characters >= BATCH_CHARACTERS:
            yield batch
            batch, chunks, characters = [], 0, 0
    if batch:
        yield batch
