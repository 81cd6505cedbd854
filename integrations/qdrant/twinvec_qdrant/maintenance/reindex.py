"""Another index for a collection, and what it is worth: the share of the true nearest that it finds."""

from __future__ import annotations

from itertools import islice

from twinvec_qdrant.records.description import read_description
from twinvec_qdrant.report import IndexReport
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Query

_SAMPLE = 100
_NEAREST = 10
_CHUNKS = field_is("kind", "chunk")


def reindex(backend: Backend, settings: IndexSettings | None) -> IndexReport:
    """Index a collection anew; see ``Collection.reindex``."""
    with backend.writing:
        now = read_description(backend.read_metadata(), backend.location)
        wanted = settings or IndexSettings.from_dict(now.index)
        backend.build_index(wanted, force=True)
        backend.write_metadata({"index": wanted.as_dict()})
    chunks = backend.count([_CHUNKS])
    return IndexReport(str(wanted), chunks, backend.indexed(chunks), _recall(backend, now.vector, wanted))


def _recall(backend: Backend, vector: str, settings: IndexSettings) -> float | None:
    """The share of the exact nearest chunks, for some of the stored vectors, that the index finds."""
    ids = [point.id for point in islice(backend.scroll([_CHUNKS], ["kind"]), _SAMPLE)]  # of random ids: a fair sample
    sample = [point.dense for point in backend.retrieve(ids, [], vector).values() if point.dense is not None]
    if not sample:
        return None
    exact, found = (
        backend.search([Query(each, _NEAREST, (), (), exact, vector, settings) for each in sample])
        for exact in (True, False)
    )
    hits = sum(len({a.id for a in wanted} & {b.id for b in got}) for wanted, got in zip(exact, found, strict=True))
    return hits / sum(map(len, exact))
