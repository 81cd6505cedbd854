"""The overview of a collection that ``Collection.info`` returns: what it holds, its model and its settings."""

from __future__ import annotations

from itertools import islice
from typing import Any

from twinvec_qdrant.records.description import Description, read_description
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import LacksVector, field_is

_CHUNKS = field_is("kind", "chunk")
_SAMPLE = 32  # chunks whose token states are measured


def overview(name: str, backend: Backend) -> dict[str, Any]:
    """Return the overview of the collection ``name``; loads no model."""
    now = read_description(backend.read_metadata(), backend.location)
    chunks = backend.count([_CHUNKS])
    return {
        "name": name,
        "location": backend.location,
        "points": chunks,
        "sources": backend.count([field_is("kind", "record")]),
        "model": now.model,
        "space": now.space,
        "dim": now.dim,
        "distance": now.distance,
        "chunking": now.chunking.as_dict(),
        "index": now.index.as_dict(),
        "indexed": backend.indexed(chunks),
        "late_interaction": _states_size(backend, now),
        "tenant_key": now.tenant_key,
        "language": now.language,
        "average_length": now.average_length,
        "migrating_to": now.next.model if now.next else None,
        "chunks_to_migrate": backend.count([_CHUNKS, LacksVector(now.next.vector)]) if now.next else None,
        "migrated_from": now.previous.model if now.previous else None,
    }


def _states_size(backend: Backend, now: Description) -> dict[str, int] | None:
    """Return the size of stored token states; that of a chunk is the mean of a sample."""
    if now.states_dim is None:
        return None
    sample = [point.id for point in islice(backend.scroll([_CHUNKS], ["kind"]), _SAMPLE)]
    sizes = [states_TD.nbytes for states_TD in backend.states(sample, now.vector).values()]
    each = sum(sizes) // len(sizes) if sizes else 0
    return {"dim": now.states_dim, "bytes_a_token": 2 * now.states_dim, "bytes_a_chunk": each}
