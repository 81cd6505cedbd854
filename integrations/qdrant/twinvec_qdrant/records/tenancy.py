"""Tenants of one collection: whose its documents are, so that an ingest of one tenant's leaves all others' alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from twinvec.retrieval.documents import Document
from twinvec_qdrant.records.catalog import Catalog
from twinvec_qdrant.records.documents import StoredDocuments
from twinvec_qdrant.records.schema import LLAMA_INDEX_KEYS, Record, user_payload
from twinvec_qdrant.stores.base import Backend

FOREIGN = "a document of another tenant has this id; give it another one, or delete that one first"
"""Why a document is refused; whose the other one is, is not said."""


class Tenants:
    """The tenants of a collection; ``key`` is that of payloads that names them, None where there is only one owner."""

    def __init__(self, backend: Backend, key: str | None) -> None:
        self._backend = backend
        self._key = key
        self._catalog = Catalog(backend)

    def foreign(self, documents: Iterable[Document], records: Mapping[str, Record]) -> set[str]:
        """The ids of those documents that the collection has as another tenant's."""
        if self._key is None:
            return set()
        named = {document.id: document.payload[self._key] for document in documents if document.id in records}
        fields = ["source", "metadata", *LLAMA_INDEX_KEYS]
        chunks = self._backend.retrieve([chunk for source in named for chunk in records[source].chunks], fields)
        owners = {source: records[source].payload.get(self._key) for source in named}
        owners |= {point.payload["source"]: user_payload(point.payload)[self._key] for point in chunks.values()}
        return {source for source, owner in owners.items() if owner not in (None, named[source])}

    def sources(self, tenants: Collection[str]) -> Iterable[str]:
        """The ids of all documents of these tenants; of all documents where there are no tenants to tell apart."""
        if self._key is None:
            return self._catalog.sources()
        if not tenants:
            return ()
        return StoredDocuments(self._backend, self._catalog).find({self._key: sorted(tenants)})
