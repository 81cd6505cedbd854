"""Ways of cutting code and PDF files: the first document of each kind decides, and the collection records the way.

By default, code is cut at functions and classes, and chunks of a PDF keep their page. If an older version of twinvec
has already cut code or PDF files in a collection, the collection keeps the old way of cutting them. So a new version of
twinvec does not cut stored documents again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.cutting.chunking import Chunker
from twinvec_qdrant.ingest.cutting.code import code_language, installed_languages, language_of
from twinvec_qdrant.ingest.reading.results import PagedDocument
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.settings import ChunkSettings


class Cutting:
    """Decides how one ingest cuts documents, and writes the decisions into the settings of ``chunker``."""

    def __init__(self, catalog: Catalog, chunker: Chunker) -> None:
        self._catalog = catalog
        self._chunker = chunker
        self.records = True  # whether decisions are stored

    @property
    def settings(self) -> ChunkSettings:
        """The chunk settings, with the decisions so far."""
        return self._chunker.settings

    def ways(self, document: Document) -> dict[str, Any]:
        """Return the settings that decide how this document is cut; the first code or PDF file decides for the rest."""
        settings = self._chunker.settings
        if settings.enabled:
            if settings.code is None and code_language(document) is not None:
                self._decide("code")
            if settings.pages is None and isinstance(document, PagedDocument):
                self._decide("pages")
        return self._chunker.ways(document)

    def _decide(self, name: str) -> None:
        backend = self._catalog.backend
        settings = stored_description(backend).chunking if self.records else self._chunker.settings
        if getattr(settings, name) is None:  # no other writer has decided meanwhile
            if name == "code":
                has_old = any(language_of(source) is not None for source in self._catalog.sources())
                settings = replace(settings, code=() if has_old else installed_languages())
            else:
                has_old = any(source.lower().endswith(".pdf") for source in self._catalog.sources())
                settings = replace(settings, pages=not has_old)
            if self.records:
                backend.write_metadata({"chunking": settings.as_dict()})
        self._chunker.settings = settings
