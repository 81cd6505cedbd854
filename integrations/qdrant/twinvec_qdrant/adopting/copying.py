"""Copying: the documents of a framework's collection go into another collection of ours, with their vectors.

This is for a collection that cannot be adopted in place: on an older server, in the folder of qdrant-client's local
mode, with another distance, or with payload keys that are ours. The source stays as it is, and ids stay the same. A
copy is an ingest of documents with vectors: the next call continues, and copies what is new.
"""

from __future__ import annotations

from twinvec.errors import BadVectorError, InputError
from twinvec.retrieval.documents import Document
from twinvec.support.progress import progress_bar
from twinvec_qdrant.adopting.reading import document_of, is_ours
from twinvec_qdrant.adopting.source import ForeignCollection
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.encoders import checked_vector
from twinvec_qdrant.framework_layout import Layout
from twinvec_qdrant.report import AdoptReport
from twinvec_qdrant.stores.points import Point, pages

_PAGE = 1000


def copy_into(
    target: Collection, source: ForeignCollection, report: AdoptReport, *, dry_run: bool, progress: bool
) -> None:
    """Ingest the documents of all points into ``target``, with their vectors."""
    backend, layout = source.backend, source.layout
    with progress_bar("Copying", backend.count([]), "points", shown=progress) as advance:
        for page in pages(backend.scroll([], []), _PAGE):
            read = backend.retrieve([point.id for point in page], None, source.vector)
            _copy(target, layout, [read[point.id] for point in page if point.id in read], report, dry_run=dry_run)
            advance(len(page))


def _copy(target: Collection, layout: Layout, points: list[Point], report: AdoptReport, *, dry_run: bool) -> None:
    documents: list[Document] = []
    vectors = {}
    for point in points:
        if is_ours(point.payload) and point.dense is None:
            continue  # a record of an adoption that was given up
        try:
            document = document_of(layout, point.id, point.payload)
            if point.dense is None:
                raise InputError("it has no vector of the model")
            vectors[document.id] = checked_vector(point.dense, len(point.dense)).tolist()
        except (InputError, BadVectorError) as error:
            report.skip(point.id, str(error))
        else:
            documents.append(document)
    ingested = target.ingest(documents, vectors=vectors, dry_run=dry_run, allow_all_failed=True)
    report.adopted += ingested.new + ingested.updated
    report.unchanged += ingested.unchanged
    for source, reason in [*ingested.failures, *ingested.empties]:
        report.skip(source, reason)
