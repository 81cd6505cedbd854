"""Check the contents of a collection after a kill: read all points, before the copy that ``undo`` keeps is removed.

If a file is damaged, the engine may overwrite other points when it applies its log. A point then has no content, has
the content of another point, or cannot be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import qdrant_edge as edge

from twinvec_qdrant.stores.conditions import IdIs
from twinvec_qdrant.stores.embedded.checksums import Records
from twinvec_qdrant.stores.embedded.repair.expected_records import changed, revisions
from twinvec_qdrant.stores.embedded.values import counted, edge_filter
from twinvec_qdrant.stores.points import PAGE, SPARSE

_PLACE = ("source", "position", "revision")
"""Fields of a chunk; two chunks never have the same values in all of them."""

_READ = ("kind", "size", "terms", *_PLACE)
_IS_CHUNK = edge.FieldCondition("kind", match=edge.MatchValue("chunk"))
_NO_VECTOR = "the vector of a chunk is missing"
_NO_WEIGHTS = "the word weights of a chunk are missing"
_SURE_TERMS = 20  # a document with fewer terms may have no terms in a later version of the analysis of words
_EXACTLY = edge.SearchParams(exact=True)


@dataclass(slots=True)
class Contents:
    """The contents of a collection, from reading all points.

    Attributes:
        records: Number and sum of the records.
        chunks: Number of chunks that the records list.
        kinds: Number of points of each kind.
        wrong: A sentence about a point with wrong content or wrong vectors; "" if no such point was found.
    """

    records: Records = field(default_factory=Records)
    chunks: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    wrong: str = ""


def read_contents(shard: edge.EdgeShard, dims: Mapping[str, int]) -> Contents:
    """Read all points of an open engine; ``dims`` maps the name of each dense vector to its number of dimensions."""
    found, offset = Contents(), None
    places: set[int] = set()  # hashes, which take less memory
    with_terms: set[str] = set()  # documents that must have word weights
    with_weights: set[str] = set()
    while True:
        page, offset = shard.scroll(edge.ScrollRequest(offset, PAGE, None, list(_READ), [SPARSE]))
        payloads = {str(point.id): point.payload or {} for point in page}
        records = [own for own in payloads.values() if own.get("kind") == "record"]
        chunks = {key: own for key, own in payloads.items() if own.get("kind") == "chunk"}
        found.kinds.update(str(own.get("kind")) for own in payloads.values())
        found.chunks += sum([int(own["size"]) for own in records])
        found.records = changed(found.records, {}, revisions(page))
        places.update(hash(tuple(map(own.get, _PLACE))) for own in chunks.values())
        with_terms.update(str(own.get("source")) for own in records if int(own.get("terms", 0)) >= _SURE_TERMS)
        with_weights.update(str(point.payload.get("source")) for point in page if point.payload and _has_weights(point))
        if not all(payloads.values()) or len(places) < found.kinds["chunk"]:
            found.wrong = "the content of a stored point is missing, or is that of another one"
        elif _without_vectors(shard, [*chunks], dims):
            found.wrong = _NO_VECTOR
        if offset is None:
            break
    if not with_terms <= with_weights:
        found.wrong = found.wrong or _NO_WEIGHTS
    return found


def _wrong_vectors(shard: edge.EdgeShard, dims: Mapping[str, int]) -> str:
    """Return a sentence about vectors that are missing or should not exist; "" if all is well."""
    for name in dims:
        if counted(shard, edge.Filter(must=[edge.HasVectorCondition(name)], must_not=[_IS_CHUNK])):
            return "a point that is not a chunk has a vector"
    # during a migration and after it, chunks may lack vectors of one of the models
    for name in (SPARSE, *(dims if len(dims) == 1 else ())):
        if counted(shard, edge.Filter(must=[_IS_CHUNK], must_not=[edge.HasVectorCondition(name)])):
            return _NO_WEIGHTS if name == SPARSE else _NO_VECTOR
    return ""


def loss_after_kill(
    shard: edge.EdgeShard,
    there: Contents,
    dims: Mapping[str, int],
    indexed: Mapping[str, int],
    states: Sequence[Records],
) -> str:
    """Return a sentence about what is missing or wrong after a kill; "" if all is well.

    ``there`` and ``dims`` are those of ``read_contents``. ``indexed`` has the number of points of each kind in the
    payload index. If ``states`` is not empty, the records must be in one of these states.
    """
    if states and there.records not in states:
        missing = min(each.number for each in states) - there.records.number
        if missing > 0:
            lost = "a document is" if missing == 1 else f"{missing:,} documents are"
            return f"{lost} missing that had been written before a process was killed"
        return "documents are not in the version that was written before a process was killed"
    if any(there.kinds[kind] != number for kind, number in indexed.items()):
        return "the payload index differs from the stored points"
    return there.wrong or _wrong_vectors(shard, dims)


def _has_weights(point: Any) -> bool:
    weights = point.vector.get(SPARSE) if isinstance(point.vector, dict) else None
    return weights is not None and bool(weights.indices)


def _without_vectors(shard: edge.EdgeShard, ids: Sequence[str], dims: Mapping[str, int]) -> bool:
    """Return whether one of these chunks has a vector of zeros, which the engine reads in place of a lost vector."""
    if not ids:
        return False
    for name, dim in dims.items():
        nearest = edge.Query.Nearest([1.0] * dim, using=name)
        chosen = edge_filter([IdIs(tuple(ids))])
        hits = shard.query(edge.QueryRequest(limit=len(ids), query=nearest, filter=chosen, params=_EXACTLY))
        suspects: list[Any] = [hit.id for hit in hits if hit.score == 0]
        stored: list[Any] = shard.retrieve(suspects, [], [name]) if suspects else []
        if any(not any(each.vector[name]) for each in stored):
            return True
    return False
