"""What a killed process has left is read once, before twinvec gives up the copy of the files as they were (``undo``).

With a damaged file, the engine may have written over other points when it applied its log. A point then has no content,
or that of another point, or cannot be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import qdrant_edge as edge

from twinvec_qdrant.stores.conditions import IdIs
from twinvec_qdrant.stores.embedded.checksums import Records
from twinvec_qdrant.stores.embedded.repair.expected_records import changed, count, revisions
from twinvec_qdrant.stores.embedded.values import edge_filter
from twinvec_qdrant.stores.points import PAGE, SPARSE

_PLACE = ("source", "position", "revision")
"""Fields of a chunk; two chunks never have the same values in all of them."""

_READ = ("kind", "size", "terms", *_PLACE)
_IS_CHUNK = edge.FieldCondition("kind", match=edge.MatchValue("chunk"))
_NO_VECTOR = "the vector of a chunk is missing"
_NO_WEIGHTS = "the word weights of a chunk are missing"
_SURE_TERMS = 20  # a document with fewer terms may have none in a later version of the analysis
_EXACTLY = edge.SearchParams(exact=True)


@dataclass(slots=True)
class Contents:
    """What reading all points has found.

    Attributes:
        records: Number and sum of the records.
        chunks: Number of chunks that the records list.
        kinds: Number of points of each kind.
        wrong: What is wrong with the content or the vectors of a point, as a sentence; "" if nothing is.
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
    """Return which vectors are missing or should not be there, as a sentence; "" if none are."""
    for name in dims:
        if count(shard, edge.Filter(must=[edge.HasVectorCondition(name)], must_not=[_IS_CHUNK])):
            return "a point that is no chunk has a vector"
    # during a migration and after it, chunks may lack vectors of one of the models
    for name in (SPARSE, *(dims if len(dims) == 1 else ())):
        if count(shard, edge.Filter(must=[_IS_CHUNK], must_not=[edge.HasVectorCondition(name)])):
            return _NO_WEIGHTS if name == SPARSE else _NO_VECTOR
    return ""


def loss_after_kill(
    shard: edge.EdgeShard,
    there: Contents,
    dims: Mapping[str, int],
    indexed: Mapping[str, int],
    states: Sequence[Records],
) -> str:
    """Return what is missing or wrong after a kill, as a sentence; "" if nothing is.

    ``there`` has the contents of ``shard``, ``dims`` is that of ``read_contents``, and ``indexed`` has the number of
    points of each kind by their index. The records must be in one of the ``states``, if there are any.
    """
    if states and there.records not in states:
        missing = min(each.number for each in states) - there.records.number
        if missing > 0:
            lost = "a document is" if missing == 1 else f"{missing:,} documents are"
            return f"{lost} missing that had been written before a process was killed"
        return "documents are not in the version that was written before a process was killed"
    if any(there.kinds[kind] != count for kind, count in indexed.items()):
        return "the payload index differs from the stored points"
    return there.wrong or _wrong_vectors(shard, dims)


def _has_weights(point: Any) -> bool:
    weights = point.vector.get(SPARSE) if isinstance(point.vector, dict) else None
    return weights is not None and bool(weights.indices)


def _without_vectors(shard: edge.EdgeShard, ids: Sequence[str], dims: Mapping[str, int]) -> bool:
    """Return whether a chunk has a vector of zeros, which is what the engine reads where a vector was lost."""
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
