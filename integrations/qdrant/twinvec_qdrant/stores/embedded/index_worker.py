"""The process that builds the index of an embedded collection.

    python index_worker.py FOLDER SETTINGS PARENT

The engine holds the interpreter lock while it builds, so another process builds, on the copy of the files in FOLDER.
SETTINGS is the JSON of ``IndexSettings``, ``with_index`` and ``erase``; PARENT is the id of the waiting process. The
process imports nothing of twinvec, and so starts quickly.

The engine keeps deleted and replaced data in two places. Its segments keep the data until they are built anew, which
the engine does only if much of a segment is outdated. Its log keeps the latest operations, with their texts. With
``erase``, every segment with anything outdated is built anew, and the log is emptied.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import qdrant_edge as edge

BUILT = "built.json"
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
_FULL_SCAN_KILOBYTES = 10_000  # a search compares all vectors of a smaller segment
_NEVER = 2**40  # kilobytes; no segment is so large
_MUCH_OUTDATED = 0.2, 1000  # the engine's defaults: a segment with this share and number of outdated points is rebuilt
_ANYTHING_OUTDATED = 0.0, 0
_LOG = "wal"
_CLOSED_BYTES = 4096  # size of the closed file of an empty log, which has a header only


def build(folder: Path, settings: dict[str, Any]) -> None:
    """Remove outdated points; if an index is wanted, build its parts that are missing or have other settings."""
    stored = json.loads((folder / "edge_config.json").read_text())
    shard = edge.EdgeShard.load(str(folder), _config(stored, settings))
    if settings["erase"]:
        _touch(shard)  # a growing segment replaces a text in place, and does not count the old text as outdated
    shard.optimize()
    shard.flush()
    last = _last_operation(shard)
    chunks = edge.Filter(must=[edge.FieldCondition("kind", match=edge.MatchValue("chunk"))])
    built = {
        "chunks": shard.count(edge.CountRequest(exact=True, filter=chunks)),
        "names": list(stored["vectors"]),
        "with_index": settings["with_index"],
    }
    (folder / BUILT).write_text(json.dumps(built), encoding="utf-8")
    shard.close()
    if settings["erase"]:
        empty_log(folder, last)


def _config(stored: dict[str, Any], settings: dict[str, Any]) -> edge.EdgeConfig:
    """Return the engine's configuration; the engine takes missing settings from its last configuration."""
    copies = _quantization(settings["quantization"])
    share, number = _ANYTHING_OUTDATED if settings["erase"] else _MUCH_OUTDATED
    return edge.EdgeConfig(
        vectors={name: _vector(each, copies) for name, each in stored["vectors"].items()},
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf) for name in stored["sparse_vectors"]
        },
        hnsw_config=edge.HnswIndexConfig(
            m=settings["m"], ef_construct=settings["ef_construct"], full_scan_threshold=_FULL_SCAN_KILOBYTES
        ),
        optimizers=edge.EdgeOptimizersConfig(
            indexing_threshold=1 if settings["with_index"] else _NEVER,
            deleted_threshold=share,
            vacuum_min_vector_number=number,
        ),
    )


def empty_log(folder: Path, last: int) -> None:
    """Replace the log of the closed engine by an empty one, whose operations get numbers above ``last``.

    The engine ignores an operation on a point that has already seen a higher number, so the numbers must continue. As
    in the engine's own snapshots, an empty file ``closed-N`` says that the log begins with number N.
    """
    aside, log = folder / "empty", folder / _LOG
    shutil.rmtree(aside, ignore_errors=True)
    edge.EdgeShard.create(
        str(aside), edge.EdgeConfig(vectors={"any": edge.EdgeVectorParams(size=1, distance=edge.Distance.Dot)})
    ).close()
    empty = next((aside / _LOG).glob("open-*"))
    os.truncate(empty, _CLOSED_BYTES)
    shutil.rmtree(log)
    log.mkdir()
    empty.rename(log / f"closed-{last + 1}")
    shutil.rmtree(aside)
    check_log(folder, last)


def check_log(folder: Path, last: int) -> None:
    """Raise ``RuntimeError`` if the next operation does not get a number above ``last``."""
    shard = edge.EdgeShard.load(str(folder))
    _touch(shard)
    shard.flush()
    found = _last_operation(shard)
    shard.close()
    if found <= last:
        raise RuntimeError(f"after its log was emptied, the engine counts operations from {found}, not from {last + 1}")


def _touch(shard: edge.EdgeShard) -> None:
    """Add a point to the growing segment, and delete it, so that the segment has an outdated point."""
    point = str(uuid4())
    shard.update(edge.UpdateOperation.upsert_points([edge.Point(point, {}, {})]))
    shard.update(edge.UpdateOperation.delete_points([point]))


def _last_operation(shard: edge.EdgeShard) -> int:
    """Return the highest number of an operation that the segments have seen."""
    return max(each["segment_version"] or 0 for each in shard.snapshot_manifest().values())


def _vector(stored: dict[str, Any], copies: Any) -> edge.EdgeVectorParams:
    """Return the parameters of a dense vector. Token states only rerank: they need no quantised copies and no graph."""
    if stored.get("multivector_config") is None:
        return edge.EdgeVectorParams(size=stored["size"], distance=edge.Distance.Cosine, quantization_config=copies)
    return edge.EdgeVectorParams(
        size=stored["size"],
        distance=edge.Distance.Dot,
        multivector_config=edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim),
        datatype=edge.VectorStorageDatatype.Float16,
        hnsw_config=edge.HnswIndexConfig(m=0, ef_construct=4, full_scan_threshold=_FULL_SCAN_KILOBYTES),
        memory=edge.Memory.Cold,
    )


def _quantization(name: str) -> Any:
    """Return the engine's quantisation; None keeps existing quantised copies, which searches then ignore.

    The copies are pinned in memory, because the engine takes seconds to open copies that are not pinned.
    """
    if name == "int8":
        return edge.ScalarQuantizationConfig(edge.ScalarType.Int8, quantile=0.99, memory=edge.Memory.Pinned)
    if name == "turbo":
        return edge.TurboQuantQuantizationConfig(bits=edge.TurboQuantBitSize.Bits4, memory=edge.Memory.Pinned)
    return edge.BinaryQuantizationConfig(memory=edge.Memory.Pinned) if name == "binary" else None


def die_with(parent: int) -> None:
    """Make Linux end this process together with its parent, because only the parent would use the index."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:  # the parent died before the call
            sys.exit(1)


if __name__ == "__main__":
    die_with(int(sys.argv[3]))
    build(Path(sys.argv[1]), json.loads(sys.argv[2]))
