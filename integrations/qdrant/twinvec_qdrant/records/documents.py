"""Reading documents back from a collection: by their ids, or their ids by a filter."""

from __future__ import annotations

from collections.abc import Sequence

from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters import Filter, parse_filter
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.schema import CHUNKS, RECORDS, Record, filter_conditions, record_id, user_payload
from twinvec_qdrant.stores.steps import Steps


class StoredDocuments:
    """The committed documents of a collection."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._backend = catalog.backend

    def get(self, ids: Sequence[str]) -> Steps[list[Document]]:
        """Return the documents with these ids; see ``Collection.get``."""
        stored = yield from self._backend.points([record_id(source) for source in dict.fromkeys(ids)])
        records = {each.source: each for each in (Record.of_payload(point.payload) for point in stored.values())}
        points = yield from self._backend.points([chunk for each in records.values() for chunk in each.chunks])
        documents = []
        for record in (records[source] for source in dict.fromkeys(ids) if source in records):
            chunks = [points[chunk].payload for chunk in record.chunks if chunk in points]
            payload = user_payload(chunks[0]) if chunks else record.payload
            documents.append(Document(record.source, "\n\n".join(chunk["text"] for chunk in chunks), payload=payload))
        return documents

    def find(self, filter: Filter | None) -> list[str]:
        """Return the ids of the documents that satisfy the filter; see ``Collection.find``."""
        if filter is None:
            return list(self._catalog.sources())
        conditions = filter_conditions(parse_filter(filter))
        found = [  # the chunks hold the payload; the record holds it if the document has no chunks
            *self._backend.scroll([CHUNKS, *conditions], ["source"]),
            *self._backend.scroll([RECORDS, *conditions], ["source"]),
        ]
        sources = dict.fromkeys(point.payload["source"] for point in found)
        committed = self._catalog.records(sources)
        there = {point.id for point in found}
        return [
            source
            for source, record in committed.items()
            if not there.isdisjoint(record.chunks or (record_id(source),))
        ]
