"""Salvage: what can still be read of a damaged collection, in new files.

A damaged file can end the process that reads it, so another process reads (``salvage_worker``), first the engine's log
alone, then all files, and if that fails, each segment by itself. A segment that cannot be opened is read without parts
that ``verify`` makes anew from the texts: first without indexes and weights of words, then without any vectors. One
that cannot be read at all is kept in the folder ``unreadable``. The new files replace the old ones together with a note
of the damage. Until ``verify`` has marked what is lost and removed the note, the collection opens for repair only.
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
from twinvec_qdrant.stores.embedded.folder import CollectionFolder
from twinvec_qdrant.stores.points import SPARSE

logger = logging.getLogger(__name__)

_NOTE = "damage.json"
_MADE_ANEW: tuple[tuple[str, ...], ...] = (
    (),
    ("payload_index", "vector_index-*", f"*-{SPARSE}"),
    ("payload_index", "vector_*"),
)
"""What a segment is read without, one attempt after the other: what is made quickly, and then all vectors too."""
_SETTINGS = "segment.json"
_OF_ANY = ("version.info", *(f"payload_storage/{name}" for name in ("config.json", "bitmask.dat", "gaps.dat")))
"""Files of a segment that hold no documents: settings and maps of free room. Those of an empty segment replace them."""
_TRACKERS = ("mutable_id_tracker", "id_tracker")  # of a segment that grows, and of one with an index, which does not
_WORKER = Path(__file__).with_name("salvage_worker.py")


def noted(shard: Path) -> Damage | None:
    """Return the noted damage, if any."""
    try:
        return Damage(**json.loads((shard / _NOTE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError):
        return Damage()


def forget(shard: Path) -> None:
    """Remove the note."""
    (shard / _NOTE).unlink(missing_ok=True)


def salvage(folder: CollectionFolder, empty: Path, damage: Damage) -> None:
    """Replace the engine's files by what can be read of them; ``empty`` is a new collection, which is filled.

    Dense vectors and token states that may be damaged are left out.
    """
    log_is_whole = not _reaches(damage, "wal/")
    aside = folder.path / "shard.copy-read"
    segments = sorted(path.name for path in (folder.shard / "segments").glob("*") if path.is_dir())
    new = next((empty / "segments").iterdir())
    target = folder.path / "shard.copy-salvaged"
    shutil.copytree(empty, target)

    def read(chosen: Sequence[str], without: Sequence[str] = ()) -> bool:
        """Copy the points of these segments and of the log to the target; return whether the process survived."""
        shutil.rmtree(aside, ignore_errors=True)
        shutil.copytree(empty, aside)
        if log_is_whole and (folder.shard / "wal").is_dir():
            shutil.rmtree(aside / "wal")
            shutil.copytree(folder.shard / "wal", aside / "wal")
        if chosen:
            shutil.rmtree(aside / "segments")
        for name in chosen:
            _copy_segment(folder.shard / "segments" / name, aside / "segments" / name, new, without, damage)
        if chosen and (folder.shard / "edge_config.json").is_file():
            shutil.copy(folder.shard / "edge_config.json", aside)
        options = {"vectors": bool(damage.files) and not _reaches(damage, "vector_storage", "wal/")}
        command = [sys.executable, "-P", str(_WORKER), str(aside), str(target), json.dumps(options)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if log_is_whole:
        read(())
    if segments and not read(segments):
        for name in segments:
            if not any(read([name], without) for without in _MADE_ANEW):
                _keep(folder, name)
    shutil.rmtree(aside, ignore_errors=True)
    atomic_write(target / _NOTE, json.dumps(asdict(damage)))
    sync_files(target)
    folder.put_copy_in_place(target)


def _copy_segment(segment: Path, copy: Path, new: Path, without: Sequence[str], damage: Damage) -> None:
    """Copy a segment without these parts; settings that are damaged are replaced by those of a ``new`` segment."""
    shutil.copytree(segment, copy)
    (copy / "payload_storage").mkdir(exist_ok=True)

    def is_damaged(name: str) -> bool:
        return not (copy / name).is_file() or _reaches(damage, f"{segment.name}/{name}")

    for name in filter(is_damaged, _OF_ANY):
        shutil.copy(new / name, copy / name)
    for part in {path for pattern in without for path in copy.glob(pattern)}:
        shutil.rmtree(part)
    for tracker in _TRACKERS:  # the engine drops the points that have no version
        points, versions = (copy / f"{tracker}.{part}" for part in ("mappings", "versions"))
        if points.is_file() and is_damaged(versions.name):
            versions.write_bytes(bytes(points.stat().st_size))
    if without or is_damaged(_SETTINGS):
        settings = json.loads((new / _SETTINGS).read_text(encoding="utf-8"))  # they name no index
        if (copy / f"{_TRACKERS[1]}.mappings").is_file():
            for vector in settings["config"]["vector_data"].values():
                vector["storage_type"] = "InRamMmap"  # of a segment that does not grow
        (copy / _SETTINGS).write_text(json.dumps(settings), encoding="utf-8")


def _keep(folder: CollectionFolder, segment: str) -> None:
    """Keep a copy of a segment that cannot be read; another tool may be able to read it."""
    kept = folder.path / "unreadable" / segment
    shutil.copytree(folder.shard / "segments" / segment, kept, dirs_exist_ok=True)
    logger.warning("%s: a part of the documents cannot be read; its files are kept in %s", folder.path, kept)


def _reaches(damage: Damage, *parts: str) -> bool:
    return any(part in name for part in parts for name in damage.files)
