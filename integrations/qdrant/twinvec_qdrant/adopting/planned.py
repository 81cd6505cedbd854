"""Pages of a framework's points, planned: which become documents of ours, and what is added to them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from twinvec.errors import ConfigurationError, InputError
from twinvec.retrieval.documents import Document
from twinvec_qdrant.adopting.reading import ELSEWHERE, added_fields, document_of, is_adopted, is_ours
from twinvec_qdrant.framework_layout import Layout
from twinvec_qdrant.ingest.document_gate import document_version
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.schema import Record, canonical
from twinvec_qdrant.report import AdoptReport
from twinvec_qdrant.settings import ChunkSettings
from twinvec_qdrant.stores.points import Point


@dataclass(frozen=True, slots=True)
class PlannedPoint:
    """A point to adopt.

    ``fields`` are to be added to its payload, ``version`` is what an ingest of the same document would record, and
    ``old`` is the record of an earlier version of the document.
    """

    point: Point
    document: Document
    fields: dict[str, Any]
    version: str
    old: Record | None

    def record(self, terms: int) -> Record:
        """Return the record of the document; ``terms`` is the number of terms of its text."""
        revision = f"{self.version} {self.point.id}"
        return Record(self.point.id, self.version, revision, (self.point.id,), terms, {})


class AdoptionPlanner:
    """Plans pages of points; ``bare`` are the ids of those without a dense vector."""

    def __init__(
        self, catalog: Catalog, layout: Layout, chunking: ChunkSettings, report: AdoptReport, bare: Collection[str]
    ) -> None:
        self._catalog = catalog
        self._layout = layout
        self._chunking = chunking
        self._report = report
        self._bare = bare

    def planned(self, page: Sequence[Point]) -> list[PlannedPoint]:
        """Return the points to adopt; count those that are adopted already, and those that cannot be."""
        found: dict[str, tuple[Point, Document, dict[str, Any]]] = {}
        for point in page:
            if is_ours(point.payload) and not is_adopted(point.payload):
                continue
            try:
                if point.id in self._bare:
                    raise InputError("it has no vector of the model")
                document = document_of(self._layout, point.id, point.payload)
                found[point.id] = point, document, added_fields(self._layout, document, point.payload)
            except InputError as error:
                self._check_harmless(point)
                self._report.skip(point.id, str(error))
        records, settings = self._catalog.records(found), canonical(self._chunking.sizes())
        planned = []
        for point, document, fields in found.values():
            old, version = records.get(point.id), document_version(document, settings)
            if not fields and old is not None and old.version == version:
                self._report.unchanged += 1
            else:
                planned.append(PlannedPoint(point, document, fields, version, old))
        return planned

    def _check_harmless(self, point: Point) -> None:
        """Raise ``ConfigurationError`` if searches of twinvec would take the point for a chunk."""
        if point.payload.get("kind") == "chunk":
            raise ConfigurationError(
                f"{self._catalog.backend.location}: the payload of point {point.id} has 'chunk' under 'kind', by which "
                f"twinvec knows its own points; {ELSEWHERE}"
            )
