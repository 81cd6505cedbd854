"""The tenants of a collection: an ingest for one tenant never changes documents of another tenant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from twinvec.retrieval.documents import Document
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.documents import find_documents
from twinvec_qdrant.records.schema import LLAMA_INDEX_KEYS, Record, chunks_of, user_payload

FOREIGN = "a document of another tenant has this id; give this document another id, or delete the other one first"
"""Reason for refusing a document; the message does not reveal the other tenant."""


class Tenants:
    """The tenants of a collection; a document's payload names its tenant under ``key`` (None: there are no tenants)."""

    def __init__(self, catalog: Catalog, key: str | None) -> None:
        self._catalog = catalog
        self._key = key

    def foreign(self, documents: Iterable[Document], records: Mapping[str, Record]) -> set[str]:
        """Return the ids of documents whose id belongs to another tenant's document in the collection."""
        if self._key is None:
            return set()
        named = {document.id: document.payload[self._key] for document in documents if document.id in records}
        fields = ["kind", "source", "metadata", *LLAMA_INDEX_KEYS]
        listed = [each for source in named for each in records[source].chunks]
        chunks = chunks_of(self._catalog.backend.retrieve(listed, fields))
        owners = {source: records[source].payload.get(self._key) for source in named}
        owners |= {point.payload["source"]: user_payload(point.payload)[self._key] for point in chunks.values()}
        return {source for source, owner in owners.items() if owner not in (None, named[source])}

    def sources(self, tenants: Collection[str]) -> Iterable[str]:
        """Return the ids of all documents of these tenants; without tenants (``key`` is None), of all documents."""
        if self._key is None:
            return self._catalog.sources()
        if not tenants:
            return ()
        return find_documents(self._catalog, {self._key: sorted(tenants)})
