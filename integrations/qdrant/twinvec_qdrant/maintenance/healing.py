"""Healing: chunks that were saved from damaged files get again what can be computed from their texts."""

from __future__ import annotations

from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.maintenance.migration import encoded_chunks
from twinvec_qdrant.maintenance.reindex import index_payload
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.schema import (
    CHUNKS,
    EMBEDDED_FIELDS,
    canonical,
    chunk_id,
    chunk_key,
    digest,
    embedded_text,
    record_id,
    tenant_path,
    user_payload,
)
from twinvec_qdrant.stores.conditions import LacksVector
from twinvec_qdrant.stores.points import Point, pages, states_name

_PAGE = 256


def heal(catalog: Catalog, model: Description, encoder: SpaceEncoder) -> None:
    """Remove points that are not what their ids say, encode chunks without vectors, and weigh and index all anew."""
    backend = catalog.backend
    backend.delete([point.id for point in backend.scroll(()) if not _is_whole(point)])
    names = [model.vector] if model.states_dim is None else [model.vector, states_name(model.vector)]
    for name in names:
        for page in pages(backend.scroll([CHUNKS, LacksVector(name)], EMBEDDED_FIELDS), _PAGE):
            backend.update_dense(encoded_chunks(page, encoder, model))
    for page in pages(backend.scroll([CHUNKS], EMBEDDED_FIELDS), _PAGE):
        weights = catalog.weights.documents(catalog.weights.terms([embedded_text(point.payload) for point in page]))
        backend.update_sparse({point.id: weight for point, weight in zip(page, weights, strict=True)})
    if (path := tenant_path(model.tenant_key)) is not None:
        backend.index_field(path, "keyword")
    index_payload(backend, model.payload_indexes, model.tenant_key)
    backend.flush()
    backend.build_index(model.index)


def _is_whole(point: Point) -> bool:
    """Return whether a chunk or a record is what its id says; other points are taken as they are."""
    own = point.payload
    try:
        if own["kind"] == "record":
            return point.id == record_id(own["source"]) and isinstance(own["size"], int)
        if own["kind"] != "chunk":
            return True
        payload = canonical(user_payload(own))
        key = chunk_key(own["text"], embedded_text(own))
        content = digest(key, own["heading"], own.get("title", ""), payload)
        return point.id == chunk_id(own["source"], own["position"], content)
    except (KeyError, TypeError, AttributeError, ValueError):
        return False
