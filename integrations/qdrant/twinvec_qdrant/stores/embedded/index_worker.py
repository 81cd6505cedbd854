"""The process that builds the index of an embedded collection.

    python index_worker.py FOLDER SETTINGS PARENT

The engine holds the interpreter lock while it builds, so it works in this process, on a copy of the files. SETTINGS is
the JSON of ``IndexSettings`` and ``with_index``, PARENT the id of the waiting process. Importing nothing of twinvec
makes the start quick.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import qdrant_edge as edge

BUILT = "built.json"
_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)
_FULL_SCAN_KILOBYTES = 10_000  # a search compares all vectors of smaller segments
_NEVER = 2**40  # kilobytes


def build(folder: Path, settings: dict[str, Any]) -> None:
    """Remove outdated points; with an index, build its parts that are missing or have other settings."""
    stored = json.loads((folder / "edge_config.json").read_text())
    copies = _quantization(settings["quantization"])
    config = edge.EdgeConfig(
        vectors={name: _vector(each, copies) for name, each in stored["vectors"].items()},
        sparse_vectors={
            name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf) for name in stored["sparse_vectors"]
        },
        hnsw_config=edge.HnswIndexConfig(
            m=settings["m"], ef_construct=settings["ef_construct"], full_scan_threshold=_FULL_SCAN_KILOBYTES
        ),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=1 if settings["with_index"] else _NEVER),
    )
    shard = edge.EdgeShard.load(str(folder), config)
    shard.optimize()
    shard.flush()
    chunks = edge.Filter(must=[edge.FieldCondition("kind", match=edge.MatchValue("chunk"))])
    built = {
        "chunks": shard.count(edge.CountRequest(exact=True, filter=chunks)),
        "names": list(stored["vectors"]),
        "with_index": settings["with_index"],
    }
    (folder / BUILT).write_text(json.dumps(built), encoding="utf-8")
    shard.close()


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

    The copies are pinned in memory, because the engine takes seconds to open others.
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
