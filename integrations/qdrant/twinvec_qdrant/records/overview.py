"""The overview of a collection that ``Collection.info`` returns: its contents, its model and its settings."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import Any

from twinvec_qdrant.records.description import Description, stored_description
from twinvec_qdrant.records.intents import unfinished_sources
from twinvec_qdrant.records.payload_indexes import shown_indexes
from twinvec_qdrant.records.roots import Roots
from twinvec_qdrant.records.schema import CHUNKS, RECORDS
from twinvec_qdrant.stored_roots import owner
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import LacksVector

_SAMPLE = 32  # chunks whose token states are measured


def overview(name: str, backend: Backend) -> dict[str, Any]:
    """Return the overview of the collection ``name``; load no model."""
    now = stored_description(backend)
    chunks = backend.count([CHUNKS])
    cluster = backend.cluster()
    return {
        "name": name,
        "location": backend.location,
        "points": chunks,
        "sources": (documents := backend.count([RECORDS])),
        **({"unfinished_documents": len(unfinished)} if (unfinished := unfinished_sources(backend)) else {}),
        **({"roots": roots} if (roots := _roots(backend, documents)) else {}),
        "model": now.model,
        "space": now.space,
        "dim": now.dim,
        "distance": now.distance,
        "chunking": now.chunking.as_dict(),
        "index": now.index.as_dict(),
        "indexed": backend.indexed(chunks),
        **({"payload_indexes": shown} if (shown := shown_indexes(backend, now.tenant_key)) else {}),
        **({"layout": now.layout.model_dump(), "vector": now.vector} if now.layout else {}),
        "late_interaction": _states_size(backend, now),
        "tenant_key": now.tenant_key,
        "language": now.language,
        "average_length": now.average_length,
        **({"reading": now.reading} if now.reading else {}),
        **({"calibration": asdict(now.calibration)} if now.calibration else {}),
        "migrating_to": now.next.model if now.next else None,
        "chunks_to_migrate": backend.count([CHUNKS, LacksVector(now.next.vector)]) if now.next else None,
        "migrated_from": now.previous.model if now.previous else None,
        **({} if cluster is None else {"cluster": cluster.as_dict()}),
    }


def _roots(backend: Backend, documents: int) -> list[dict[str, Any]]:
    """Return the roots of the collection as plain JSON, each with the number of its documents."""
    roots = Roots(backend).all()
    if len(roots) > 1:
        ids = (point.payload["source"] for point in backend.scroll([RECORDS], ["source"]))
        counts = Counter(root.name for each in ids if (root := owner(roots, each)))
    else:
        counts = Counter(dict.fromkeys(roots, documents))
    return [
        {
            "name": root.name,
            "location": root.location,
            "documents": counts[root.name],
            **({"described": dict(root.described)} if root.described else {}),
        }
        for root in roots.values()
    ]


def _states_size(backend: Backend, now: Description) -> dict[str, int] | None:
    """Return the sizes of stored token states; the size of a chunk's states is the mean over a sample."""
    if now.states_dim is None:
        return None
    sample = [point.id for point in islice(backend.scroll([CHUNKS], ["kind"]), _SAMPLE)]
    sizes = [states_TD.nbytes for states_TD in backend.states(sample, now.vector).values()]
    each = sum(sizes) // len(sizes) if sizes else 0
    return {"dim": now.states_dim, "bytes_a_token": 2 * now.states_dim, "bytes_a_chunk": each}
