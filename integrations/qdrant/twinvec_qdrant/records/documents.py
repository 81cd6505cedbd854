"""Reading documents back from a collection: by their ids, or their ids by a filter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters import Filter, parse_filter
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.schema import (
    CHUNKS,
    RECORDS,
    Record,
    filter_conditions,
    hidden_keys,
    record_id,
    user_payload,
)
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.steps import Steps

_PAGE = 512


def stored_documents(backend: Backend, ids: Sequence[str]) -> Steps[list[Document]]:
    """Return the documents with these ids; see ``Collection.get``."""
    documents: dict[str, Document] = {}
    incomplete: dict[str, str] = {}  # revisions
    left = list(dict.fromkeys(ids))
    while left:
        stored = yield from backend.points([record_id(source) for source in left])
        records = [Record.of_payload(point.payload) for point in stored.values()]
        points = yield from backend.points([chunk for each in records for chunk in each.chunks])
        left = []
        for record in records:
            # a writer has removed the chunks after the record was read, or they are lost if the record is the same
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


def find_documents(catalog: Catalog, filter: Filter | None) -> list[str]:
    """Return the ids of the documents that satisfy the filter; see ``Collection.find``."""
    if filter is None:
        return list(catalog.sources())
    conditions = filter_conditions(parse_filter(filter))
    found: dict[str, None] = {}
    for kind in (CHUNKS, RECORDS):  # chunks hold the payload; the record holds it if the document has no chunks
        for page in pages(catalog.backend.scroll([kind, *conditions], ["source"]), _PAGE):
            there = {point.id for point in page}
            sources = dict.fromkeys(point.payload["source"] for point in page)
            for source, record in catalog.records(each for each in sources if each not in found).items():
                if not there.isdisjoint(record.chunks or (record_id(source),)):
                    found[source] = None
    return list(found)
