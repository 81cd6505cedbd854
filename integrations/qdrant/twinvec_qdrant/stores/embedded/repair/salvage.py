"""Salvage: copy all that can still be read of a damaged collection into new files.

A damaged file can end the process that reads it, so another process reads (``salvage_worker``): first only the engine's
log, then all files, and if that fails, each segment by itself. A segment that cannot be opened is read again without
parts that ``verify`` can make from the texts: first without indexes and BM25 weights, then without any vectors. If that
fails too, the segment is read in the same ways without the log, because the log can make damaged files unreadable. A
segment that cannot be read at all is kept in the folder ``unreadable``. The new files replace the old files, and have a
note of the damage. Until ``verify`` has marked lost documents and removed the note, the collection opens for repair
only.
"""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from twinvec.support.atomic import atomic_write, sync_files
from twinvec_qdrant.stores.base import Damage
from twinvec_qdrant.stores.embedded.folder import CollectionFolder, copied_file, copied_tree
from twinvec_qdrant.stores.points import SPARSE

logger = logging.getLogger(__name__)

_NOTE = "damage.json"
_LEFT_OUT: tuple[tuple[str, ...], ...] = (
    (),
    ("payload_index", "vector_index-*", f"*-{SPARSE}"),
    ("payload_index", "vector_*"),
)
"""Parts of a segment that each attempt leaves out: none, then parts that are quick to make, then all vectors."""
_SETTINGS = "segment.json"
_OF_ANY = ("version.info", *(f"payload_storage/{name}" for name in ("config.json", "bitmask.dat", "gaps.dat")))
"""Files of a segment that hold only settings and maps of free room; files of an empty segment can replace them."""
_TRACKERS = ("mutable_id_tracker", "id_tracker")  # the id trackers of a growing segment, and of one with an index
_WORKER = Path(__file__).with_name("salvage_worker.py")


def noted(shard: Path) -> Damage | None:
    """Return the noted damage, or None without a note."""
    try:
        return Damage(**json.loads((shard / _NOTE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return Damage()


def forget(shard: Path) -> None:
    """Remove the note of the damage."""
    (shard / _NOTE).unlink(missing_ok=True)


def salvage(folder: CollectionFolder, empty: Path, damage: Damage) -> None:
    """Copy all that can be read into the new, ``empty`` files, and replace the engine's files by the result.

    Dense vectors and token states that may be damaged are left out.
    """
    log_is_whole = not _reaches(damage, "wal/")
    aside = folder.path / "shard.copy-read"
    segments = sorted(path.name for path in (folder.shard / "segments").glob("*") if path.is_dir())
    new = next((empty / "segments").iterdir())
    target = folder.path / "shard.copy-salvaged"
    copied_tree(empty, target)

    def read(chosen: Sequence[str], without: Sequence[str] = (), *, with_log: bool = log_is_whole) -> bool:
        """Copy the points of these segments and of the log to ``target``; return whether the worker has succeeded."""
        shutil.rmtree(aside, ignore_errors=True)
        copied_tree(empty, aside)
        if with_log and (folder.shard / "wal").is_dir():
            shutil.rmtree(aside / "wal")
            copied_tree(folder.shard / "wal", aside / "wal")
        if chosen:
            shutil.rmtree(aside / "segments")
        for name in chosen:
            _copy_segment(folder.shard / "segments" / name, aside / "segments" / name, new, without, damage)
        if chosen and (folder.shard / "edge_config.json").is_file():
            shutil.copy(folder.shard / "edge_config.json", aside)
        options = {"vectors": bool(damage.files) and not _reaches(damage, "vector_storage", "wal/")}
        command = [sys.executable, "-P", str(_WORKER), str(aside), str(target), json.dumps(options)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    logs = (True, False) if log_is_whole else (False,)
    if log_is_whole:
        read(())
    if segments and not read(segments):
        for name in segments:
            if not any(read([name], without, with_log=log) for log in logs for without in _LEFT_OUT):
                _keep(folder, name)
    shutil.rmtree(aside, ignore_errors=True)
    atomic_write(target / _NOTE, json.dumps(asdict(damage)))
    sync_files(target)
    folder.put_copy_in_place(target)


def _copy_segment(segment: Path, copy: Path, new: Path, without: Sequence[str], damage: Damage) -> None:
    """Copy a segment without the parts ``without``; the settings of a ``new`` segment replace damaged settings."""
    copied_tree(segment, copy)
    (copy / "payload_storage").mkdir(exist_ok=True)

    def is_damaged(name: str) -> bool:
        return not (copy / name).is_file() or _reaches(damage, f"{segment.name}/{name}")

    for name in filter(is_damaged, _OF_ANY):
        shutil.copy(new / name, copy / name)
    for part in {path for pattern in without for path in copy.glob(pattern)}:
        shutil.rmtree(part)
    for tracker in _TRACKERS:  # the engine drops points without a version
        points, versions = (copy / f"{tracker}.{part}" for part in ("mappings", "versions"))
        if points.is_file() and is_damaged(versions.name):
            versions.write_bytes(bytes(points.stat().st_size))
    if without or is_damaged(_SETTINGS):
        settings = json.loads((new / _SETTINGS).read_text(encoding="utf-8"))  # settings without an index
        if (copy / f"{_TRACKERS[1]}.mappings").is_file():
            for vector in settings["config"]["vector_data"].values():
                vector["storage_type"] = "InRamMmap"  # the type of a segment that does not grow
        (copy / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")


def _keep(folder: CollectionFolder, segment: str) -> None:
    """Keep a copy of a segment that cannot be read; another tool may be able to read it."""
    kept = folder.path / "unreadable" / segment
    shutil.copytree(folder.shard / "segments" / segment, kept, copy_function=copied_file, dirs_exist_ok=True)
    logger.warning("%s: some documents cannot be read; their files are kept in %s", folder.path, kept)


def _reaches(damage: Damage, *parts: str) -> bool:
    return any(part in name for part in parts for name in damage.files)
