"""Adoption in place: points of a framework's collection become documents of twinvec, and the framework still uses them.

    1. check     the collection's settings; on a sample, that the model gives the stored vectors
    2. begin     write the description into the metadata, under ``ADOPTION``; add BM25 vectors and payload indexes
    3. points    page by page, write sparse vectors, then twinvec's fields next to those of the framework; read the
                 points again, and write the records of unchanged points. A record is the commit of its point
    4. newer     adopt the points that the framework's application has written meanwhile
    5. finish    in one write, move the description to its place in the metadata

After a kill, the framework still reads the collection, whose points may have more fields. The next call goes on with
the points that lack a record. On a collection that was adopted, a call adopts the points that the framework's
application has written since, and removes the documents whose points it has deleted.

The vectors and their name stay: the description records the name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from twinvec.errors import ConfigurationError, InputError
from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters.conditions import Not
from twinvec.support.progress import Advance, progress_bar, unseen
from twinvec_qdrant.adopting.reading import ELSEWHERE, KIND_FIELDS, added_fields, document_of, is_adopted, is_theirs
from twinvec_qdrant.ingest.document_gate import document_version
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import ADOPTION, Description
from twinvec_qdrant.records.payload_indexes import PayloadIndexing
from twinvec_qdrant.records.schema import RECORDS, Record, canonical, record_id
from twinvec_qdrant.report import AdoptReport
from twinvec_qdrant.stores.base import update_existing
from twinvec_qdrant.stores.conditions import LacksVector, StoreCondition, field_is
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.server.backend import ServerBackend

T = TypeVar("T")

FOREIGN: StoreCondition = Not(field_is("kind", *KIND_FIELDS))
"""The condition that selects points that twinvec has neither written nor adopted."""

ADDING = "twinvec_adding"
"""Key that the metadata have while points are added to a collection that was adopted before."""

_PAGE = 256
_ROUNDS = 5  # tries for a point that the framework's application changes after it was read


@dataclass(frozen=True, slots=True)
class _PlannedPoint:
    """A point to adopt.

    ``fields`` are added to its payload, ``version`` is the version that an ingest of the document would record, and
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


class Adoption:
    """The adoption of one collection, which gets this ``description`` at the end.

    ``finished`` says that the collection was adopted before, and ``begun`` that an earlier call was interrupted.
    """

    def __init__(
        self, backend: ServerBackend, description: Description, report: AdoptReport, *, finished: bool, begun: bool
    ) -> None:
        assert description.layout is not None
        self._backend = backend
        self._description = description
        self._layout = description.layout
        self._report = report
        self._finished = finished
        self._begun = begun
        self._weights = BM25Weights(backend, description)
        self._catalog = Catalog(backend, self._weights)
        self._indexing = PayloadIndexing(backend, description.payload_indexes)

    def run(self, *, progress: bool) -> None:
        """Adopt all points, and make the collection a collection of twinvec."""
        backend, wanted = self._backend, self._wanted()
        with backend.writing:
            self._begin()
            theirs = backend.count([*wanted, Not(RECORDS)])
            with progress_bar("Adopting", theirs, "points", shown=progress) as advance:
                self._sweep(wanted, self._report, advance)
            while self._sweep([FOREIGN], AdoptReport(self._layout.name), unseen):  # until no application adds points
                pass
            if self._finished or self._begun:
                self._remove_deleted()
            self._weights.rebalance()
            backend.write_metadata(self._end())
            backend.flush()

    def count(self, *, progress: bool) -> None:
        """Count the points that ``run`` would adopt or skip; write nothing."""
        bare, wanted = self._bare([FOREIGN] if self._finished else []), self._wanted()
        with progress_bar("Counting", self._backend.count(wanted), "points", shown=progress) as advance:
            for page in pages(self._backend.scroll(wanted), _PAGE):
                self._report.adopted += len(self._planned(page, self._report, bare))
                advance(len(page))

    def _wanted(self) -> Sequence[StoreCondition]:
        """Return the conditions that select the points to look at: all points, unless a call has finished before."""
        return [FOREIGN] if self._finished and not self._begun else []

    def _begin(self) -> None:
        backend = self._backend
        if self._finished:
            backend.write_metadata({ADDING: True})
            return
        if not self._begun:
            backend.write_metadata({ADOPTION: dict(self._description.new_collection().metadata)})
            backend.shape()  # reads the layout, on which the writes of the backend depend
        backend.add_sparse()
        backend.index_fields(None)

    def _end(self) -> dict[str, Any]:
        """Return the change of the metadata that ends the adoption."""
        if self._finished:
            return {ADDING: None}
        now = self._description.model_copy(
            update={"average_length": self._weights.average_length, "analysis": self._weights.analyzer.version}
        )
        return {**now.new_collection().metadata, ADOPTION: None}

    def _bare(self, among: Sequence[StoreCondition] = (FOREIGN,)) -> set[str]:
        """Return the ids of the points without a vector of the model."""
        return {point.id for point in self._backend.scroll([*among, LacksVector(self._description.vector)], [])}

    def _sweep(self, wanted: Sequence[StoreCondition], report: AdoptReport, advance: Advance) -> int:
        """Adopt the points that satisfy the conditions, and return their number; ``report`` counts all other points."""
        bare, adopted = self._bare(), 0
        for page in pages(self._backend.scroll(wanted), _PAGE):
            adopted += self._adopt(page, report, bare)
            advance(sum(is_theirs(point.payload) for point in page))
        self._report.adopted += adopted
        return adopted

    def _adopt(self, page: Sequence[Point], report: AdoptReport, bare: Collection[str]) -> int:
        """Adopt the points of a page, even if the framework's application changes them; return how many it adopted."""
        adopted = 0
        left = self._planned(page, report, bare)
        for _ in range(_ROUNDS):
            if not left:
                break
            changed = self._write(left)
            adopted += len(left) - len(changed)
            left = self._planned(list(self._backend.retrieve(changed).values()), report, bare)
        return adopted

    def _planned(self, page: Sequence[Point], report: AdoptReport, bare: Collection[str]) -> list[_PlannedPoint]:
        """Return the points to adopt; count the points that are adopted already, and those that cannot be adopted.

        ``bare`` are the ids of points without a vector of the model.
        """
        found: dict[str, tuple[Point, Document, dict[str, Any]]] = {}
        for point in page:
            if not is_theirs(point.payload):
                continue
            try:
                if point.id in bare:
                    raise InputError("it has no vector of the model")
                document = document_of(self._layout, point.id, point.payload)
                found[point.id] = point, document, added_fields(self._layout, document, point.payload)
            except InputError as error:
                self._check_harmless(point)
                report.skip(point.id, str(error))
        records, settings = self._catalog.records(found), canonical(self._description.chunking.sizes())
        planned = []
        for point, document, fields in found.values():
            old, version = records.get(point.id), document_version(document, settings)
            if not fields and old is not None and old.version == version:
                report.unchanged += 1
            else:
                planned.append(_PlannedPoint(point, document, fields, version, old))
        return planned

    def _check_harmless(self, point: Point) -> None:
        """Raise ``ConfigurationError`` if searches of twinvec would take the point for a chunk."""
        if point.payload.get("kind") == "chunk":
            raise ConfigurationError(
                f"{self._catalog.backend.location}: the payload of point {point.id} has the kind 'chunk', which marks "
                f"twinvec's own points; {ELSEWHERE}"
            )

    def _write(self, planned: Sequence[_PlannedPoint]) -> list[str]:
        """Add twinvec's fields and vectors to the points, and commit them; return the ids of points that changed."""
        self._indexing.see(each.document.payload for each in planned)
        terms = self._weights.terms([each.document.text for each in planned])
        points = [each.point.id for each in planned]
        self._add(dict(zip(points, self._weights.documents(terms), strict=True)), self._backend.update_sparse)
        self._add({each.point.id: each.fields for each in planned if each.fields}, self._backend.add_fields)
        same = self._unchanged(planned)
        records = [each.record(len(own)) for each, own in zip(planned, terms, strict=True)]
        kept = [(each, record) for each, record in zip(planned, records, strict=True) if each.point.id in same]
        self._backend.commit(
            [Point(record_id(record.source), record.as_payload()) for _, record in kept],
            [each.old.revision if each.old else None for each, _ in kept],
        )
        replaced = [chunk for each, _ in kept if each.old for chunk in each.old.chunks if chunk != each.point.id]
        self._backend.delete(replaced)
        for each, record in kept:
            self._weights.changed(each.old, record)
        self._weights.written(each.document.text for each, _ in kept)
        return [key for key in points if key not in same]

    def _add(self, values: Mapping[str, T], add: Callable[[Mapping[str, T]], None]) -> None:
        """Add values to the points that still exist, by id."""
        update_existing(self._backend, values, lambda ids: add({key: values[key] for key in ids}))

    def _unchanged(self, planned: Sequence[_PlannedPoint]) -> set[str]:
        """Return the ids of the points that still hold the document from which their fields were made."""
        there = self._backend.retrieve([each.point.id for each in planned])
        same = set()
        for each in planned:
            point = there.get(each.point.id)
            if point is not None and is_adopted(point.payload):
                with suppress(InputError):
                    if document_of(self._layout, point.id, point.payload) == each.document:
                        same.add(point.id)
        return same

    def _remove_deleted(self) -> None:
        """Remove the documents whose points the framework's application has deleted."""
        for page in pages(self._backend.scroll([RECORDS], ["source", "revision", "chunks"]), _PAGE):
            listed = [each.payload for each in page if each.payload["chunks"]]
            there = self._backend.retrieve([chunk for each in listed for chunk in each["chunks"]], [])
            gone = {each["source"]: each["revision"] for each in listed if there.keys().isdisjoint(each["chunks"])}
            # a document that twinvec has written again meanwhile has other chunks
            now = {source: record.revision for source, record in self._catalog.records(gone).items()}
            self._report.removed += len(list(self._catalog.remove(list(dict(gone.items() & now.items())))))
