"""The process that reads a damaged collection.

    python salvage_worker.py FOLDER TARGET OPTIONS

It copies the points of the collection in FOLDER that TARGET lacks. If a batch of points cannot be read, it copies them
one by one; if a point's vectors cannot be read, it leaves them out. OPTIONS is JSON: {"vectors": false} leaves out all
dense vectors. The process imports nothing of twinvec, and so starts quickly.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge as edge

_PAGE = 256


def copy(source: str, target: str, *, vectors: bool) -> None:
    """Copy the readable points that the target lacks."""
    there, new = load_shard(source), edge.EdgeShard.load(target)
    for ids in _ids(there):
        known = {str(each.id) for each in new.retrieve([*ids], False, False)}
        points = [_point(each, vectors) for each in _read(there, [key for key in ids if key not in known])]
        if points:
            new.update(edge.UpdateOperation.upsert_points(points))
    new.flush()
    new.close()


def load_shard(path: str) -> edge.EdgeShard:
    """Open the engine's files, if necessary without their configuration file.

    The engine adds or drops a vector in one segment after another, and then in the configuration. After a kill in the
    middle, the engine refuses to open the files. If the segments differ, the vector is removed from all of them
    (``_align``), and the engine repeats the operation from its log. If the configuration differs, its file is removed,
    and the engine takes the configuration from the segments.
    """
    try:
        return edge.EdgeShard.load(path)
    except BaseException as error:  # a panic of the engine is not an Exception
        if "is incompatible with previously loaded segments" in str(error):
            if not _align(Path(path)):
                raise
        elif "config is incompatible with existing segments" not in str(error):
            raise
        (Path(path) / "edge_config.json").unlink(missing_ok=True)
        return edge.EdgeShard.load(path)


def _align(shard: Path) -> bool:
    """Remove the dense vectors that some segments lack; if no vector would be left, do nothing and return False."""
    states = {each: json.loads(each.read_text()) for each in shard.glob("segments/*/segment.json")}
    vectors = [state["config"]["vector_data"] for state in states.values()]
    common = set.intersection(*map(set, vectors))
    if not common:
        return False
    for (file, state), own in zip(states.items(), vectors, strict=True):
        dropped = own.keys() - common
        for name in dropped:
            del own[name]
        aside = file.with_suffix(".aligned")
        aside.write_text(json.dumps(state))
        aside.replace(file)
        for name in dropped:  # the files go last, as in the engine, so that no kill leaves a vector without files
            shutil.rmtree(file.with_name(f"vector_storage-{name}"), ignore_errors=True)
            shutil.rmtree(file.with_name(f"vector_index-{name}"), ignore_errors=True)
    return True


def _ids(shard: edge.EdgeShard) -> Iterator[list[str]]:
    offset = None
    while True:
        records, offset = shard.scroll(edge.ScrollRequest(offset, _PAGE, None, False, False))
        yield [str(each.id) for each in records]
        if offset is None:
            return


def _read(shard: edge.EdgeShard, ids: Sequence[str], with_vectors: bool = True) -> Iterator[Any]:
    try:
        found = shard.retrieve(list(ids), True, with_vectors) if ids else []
    except BaseException:  # a panic of the engine is not an Exception
        if len(ids) > 1:
            for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]):
                yield from _read(shard, half, with_vectors)
        elif with_vectors:
            yield from _read(shard, ids, with_vectors=False)
        return
    yield from found


def _point(record: Any, vectors: bool) -> edge.Point:
    stored = record.vector if isinstance(record.vector, dict) else {}
    kept = {name: each for name, each in stored.items() if not isinstance(each, list) or (vectors and _is_sound(each))}
    return edge.Point(str(record.id), kept, record.payload or {})


def _is_sound(vector: Sequence[Any]) -> bool:
    numbers = vector if not vector or not isinstance(vector[0], list) else [each for row in vector for each in row]
    return all(map(math.isfinite, numbers)) and any(numbers)


if __name__ == "__main__":
    copy(sys.argv[1], sys.argv[2], **json.loads(sys.argv[3]))
