"""Rebuild a collection's index, and measure it: the share of the exact nearest chunks that it finds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from twinvec.errors import ConfigurationError, StoreLimitError
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.report import IndexReport
from twinvec_qdrant.settings import ClusterSettings, IndexSettings
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Query

_SAMPLE = 100
_NEAREST = 10


def reindex(
    backend: Backend, index: IndexSettings | Mapping[str, Any] | None, cluster: ClusterSettings | None = None
) -> IndexReport:
    """Rebuild the index; see ``Collection.reindex``."""
    requested = IndexSettings.from_dict(index) if isinstance(index, Mapping) else index
    if not isinstance(requested, IndexSettings | None):
        raise ConfigurationError(f"index: expected IndexSettings or their fields, got {type(index).__name__}")
    with backend.writing:
        if cluster is not None and cluster.given():
            backend.change_cluster(cluster)
        now = stored_description(backend)
        settings = requested or now.index
        backend.build_index(settings, force=True)
        backend.write_metadata({"index": settings.as_dict()})
    chunks = backend.count([CHUNKS])
    return IndexReport(str(settings), chunks, backend.indexed(chunks), _recall(backend, now.vector, settings))


def _recall(backend: Backend, vector: str, settings: IndexSettings) -> float | None:
    """Return the share of the exact nearest chunks that the index finds, for a sample of the stored vectors.

    Return None for a collection without chunks, and where the server forbids exact search.
    """
    ids = [point.id for point in islice(backend.scroll([CHUNKS], ["kind"]), _SAMPLE)]  # ids are hashes: a fair sample
    sample = [point.dense for point in backend.retrieve(ids, [], vector).values() if point.dense is not None]
    if not sample:
        return None
    try:
        exact, found = (
            backend.search([Query(each, _NEAREST, (), (), exact, vector, settings) for each in sample])
            for exact in (True, False)
        )
    except StoreLimitError:  # the server forbids exact search
        return None
    hits = sum(len({a.id for a in wanted} & {b.id for b in got}) for wanted, got in zip(exact, found, strict=True))
    return hits / sum(map(len, exact))
