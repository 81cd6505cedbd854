"""Rebuild a collection's index, and measure it: the share of the exact nearest chunks that it finds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Literal

from twinvec.errors import ConfigurationError, StoreLimitError
from twinvec_qdrant.maintenance.index_payload import index_payload
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.payload_indexes import shown_indexes
from twinvec_qdrant.records.schema import CHUNKS
from twinvec_qdrant.report import IndexReport
from twinvec_qdrant.settings import ClusterSettings, IndexSettings, PayloadIndexes
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Query

_SAMPLE = 100
_NEAREST = 10


def reindex(
    backend: Backend,
    index: IndexSettings | Mapping[str, Any] | None,
    cluster: ClusterSettings | None,
    payload_indexes: Mapping[str, Any] | Literal[False] | None,
) -> IndexReport:
    """Rebuild the indexes; see ``Collection.reindex``."""
    requested = IndexSettings.from_dict(index) if isinstance(index, Mapping) else index
    if not isinstance(requested, IndexSettings | None):
        raise ConfigurationError(f"index: expected IndexSettings or their fields, got {type(index).__name__}")
    with backend.writing:
        if cluster is not None and cluster.given():
            backend.change_cluster(cluster)
        now = stored_description(backend)
        settings = requested or now.index
        wanted = now.payload_indexes if payload_indexes is None else PayloadIndexes.of(payload_indexes)
        index_payload(backend, wanted, now.tenant_key)
        backend.build_index(settings, force=index is not None or payload_indexes is None)
        updated = now.model_copy(update={"index": settings, "payload_indexes": wanted})
        backend.write_metadata(updated.changes(now))
    chunks = backend.count([CHUNKS])
    recall = _recall(backend, now.vector, settings)
    return IndexReport(str(settings), chunks, backend.indexed(chunks), recall, shown_indexes(backend, now.tenant_key))


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
