"""Read from a collection: documents by their ids, ids of documents by a filter, their list, and a sample of chunks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import nsmallest

from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters import Filter, parse_filter
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.roots import Roots
from twinvec_qdrant.records.schema import (
    CHUNKS,
    RECORDS,
    Record,
    chunks_of,
    digest,
    embedded_text,
    filter_conditions,
    hidden_keys,
    record_id,
    user_payload,
)
from twinvec_qdrant.stored_roots import owner
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.steps import Steps

_PAGE = 512
_SPECIAL = re.compile(r"[?[]")  # characters that are special for fnmatch, besides *


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk of a committed document.

    Attributes:
        id: Digest of everything that the chunk holds.
        document: Id of its document.
        position: Its place in the document, from 0.
        title: The document's title; may be empty.
        heading: The title and the headings above the chunk, "Guide > Install"; may be empty.
        text: Heading, blank line, body.
        embedded: The text that was embedded: ``text``, in some collections with its surroundings.
    """

    id: str
    document: str
    position: int
    title: str
    heading: str
    text: str
    embedded: str


@dataclass(frozen=True, slots=True)
class DocumentEntry:
    """A document in the list of a collection's documents.

    Attributes:
        id: Its id.
        title: Its title; may be empty.
        source: Name of its source; None in a collection without sources.
        chunks: Number of its chunks; 0 for a document without text.
        complete: False if a repair has found that chunks are missing, which the document's next ingest writes again.
    """

    id: str
    title: str
    source: str | None
    chunks: int
    complete: bool


def stored_documents(backend: Backend, ids: Sequence[str]) -> Steps[list[Document]]:
    """Return the documents with these ids; see ``Collection.get``."""
    documents: dict[str, Document] = {}
    incomplete: dict[str, str] = {}  # the revision of each source that lacked chunks
    left = list(dict.fromkeys(ids))
    while left:
        stored = yield from backend.points([record_id(source) for source in left])
        records = [Record.of_payload(point.payload) for point in stored.values()]
        points = chunks_of((yield from backend.points([chunk for each in records for chunk in each.chunks])))
        left = []
        for record in records:
            # a writer may have removed chunks since the record was read; if the record is unchanged, they are lost
            if points.keys() >= set(record.chunks) or incomplete.get(record.source) == record.revision:
                documents[record.source] = _document(record, points)
            else:
                incomplete[record.source] = record.revision
                left.append(record.source)
    return [documents[source] for source in dict.fromkeys(ids) if source in documents]


def _document(record: Record, points: Mapping[str, Point]) -> Document:
    chunks = [points[chunk].payload for chunk in record.chunks if chunk in points]
    payload = user_payload(chunks[0]) if chunks else record.payload
    hidden = hidden_keys(chunks[0]) if chunks else None
    return Document(record.source, "\n\n".join(chunk["text"] for chunk in chunks), payload=payload, hidden=hidden)


def sampled_chunks(backend: Backend, limit: int) -> list[StoredChunk]:
    """Return the first ``limit`` chunks by a hash of document id and chunk number; see ``Collection.sample``."""
    records = (Record.of_payload(point.payload) for point in backend.scroll([RECORDS]))
    complete = (each for each in records if each.version)
    placed = ((digest(each.source, str(at)), key) for each in complete for at, key in enumerate(each.chunks))
    drawn = [key for _, key in nsmallest(limit, placed)]
    points = {key: point for page in pages(drawn, _PAGE) for key, point in chunks_of(backend.retrieve(page)).items()}
    return [_stored_chunk(points[key]) for key in drawn if key in points]


def _stored_chunk(point: Point) -> StoredChunk:
    own = point.payload
    title, heading = (str(own.get(field) or "") for field in ("title", "heading"))
    return StoredChunk(point.id, own["source"], own["position"], title, heading, own["text"], embedded_text(own))


def find_documents(catalog: Catalog, filter: Filter | None) -> list[str]:
    """Return the ids of the documents that satisfy the filter; see ``Collection.find``."""
    if filter is None:
        return list(catalog.sources())
    conditions = filter_conditions(parse_filter(filter))
    found: dict[str, None] = {}
    for kind in (CHUNKS, RECORDS):  # the record holds the payload of a document without chunks
        for page in pages(catalog.backend.scroll([kind, *conditions], ["source"]), _PAGE):
            there = {point.id for point in page}
            sources = dict.fromkeys(point.payload["source"] for point in page)
            for source, record in catalog.records(each for each in sources if each not in found).items():
                if not there.isdisjoint(record.chunks or (record_id(source),)):
                    found[source] = None
    return list(found)


def fitting(ids: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """Return the ids that fit at least one pattern; in a pattern, * stands for any characters."""
    given = set(patterns)
    wild = [_SPECIAL.sub(r"[\g<0>]", each) for each in given if "*" in each]
    return [each for each in ids if each in given or any(fnmatchcase(each, pattern) for pattern in wild)]


def listed_documents(catalog: Catalog, ids: Iterable[str]) -> Iterator[DocumentEntry]:
    """Yield the entries of the documents with these ids, in this order; leave out documents removed meanwhile.

    The ids are listed before the call, so that the source of each document is known: a source is added before its
    documents are stored.
    """
    roots = Roots(catalog.backend).all()
    for page in pages(ids, _PAGE):
        records = catalog.records(page)
        first = [record.chunks[0] for record in records.values() if record.chunks]
        points = chunks_of(catalog.backend.retrieve(first, ["kind", "source", "title"]))
        titles = {point.payload["source"]: point.payload.get("title") or "" for point in points.values()}
        for record in (records[each] for each in page if each in records):
            root, source = owner(roots, record.source), record.source
            name = None if root is None else root.name
            yield DocumentEntry(source, titles.get(source, ""), name, len(record.chunks), bool(record.version))
