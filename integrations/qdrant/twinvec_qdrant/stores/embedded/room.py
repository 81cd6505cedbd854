"""Room on the disk: how much the engine needs, and whether it is free.

The engine maps its files into memory. If the disk has no room for a mapped page, the process dies (SIGBUS), so twinvec
checks the free room first. The files are sparse: a write into a hole takes room. In a file system in memory (tmpfs), a
read of a hole through a mapping takes room as well, and the engine reads many of its files whole when it opens them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from twinvec.errors import StoreUnavailableError

WRITE_ROOM = 32 * 2**20
"""Free bytes that are needed for a write, by which the engine's log and files grow by more than a page of vectors."""

OPEN_ROOM = 4 * 2**20
"""Free bytes that are needed to open a collection (the engine replaces small files), close it, or delete points."""

_OPEN_FILES = 16
"""Number of files that the engine, the locks and a close may create."""

MAKE_ROOM = (
    "remove other files, or a collection that nobody needs (twinvec drop, or DELETE /v1/collections/NAME of twinvec "
    "serve; both work on a full disk)"
)
"""Advice for a full disk, at the end of errors."""

_REPLAY = 4
"""Bytes that the engine may write for each byte of its log when it reads the log again after a kill."""

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_READ_IN_PART = ("wal/", "payload_storage/", "/store/")  # parts of the paths of files that opening does not read whole


class Obstacle(NamedTuple):
    """The reason why the engine cannot open or change files in their folder, and the remedy."""

    reason: str
    remedy: str

    def error(self, place: object) -> StoreUnavailableError:
        """Return the error for the path ``place``."""
        return StoreUnavailableError(f"{place}: {self.reason}; {self.remedy}")


def check_room(place: Path, needed: int, action: str = "write") -> None:
    """Raise ``StoreUnavailableError`` if fewer than ``needed`` bytes are free on the disk of ``place``."""
    if (lacking := lacking_room(place, needed, action)) is not None:
        raise lacking.error(place)


def lacking_room(place: Path, needed: int, action: str) -> Obstacle | None:
    """Return an obstacle if the disk has fewer than ``needed`` free bytes for ``action``, or hardly any inodes.

    Raise ``StoreUnavailableError`` if another process has removed the folder.
    """
    try:
        free, files = free_room(place), _files_left(place)
    except FileNotFoundError:
        raise StoreUnavailableError(f"{place}: the collection has been removed by another process") from None
    if free < needed:
        lack = f"{free / 2**20:.0f} MB are free, and at least {needed / 2**20:.0f} MB are needed"
    elif files < _OPEN_FILES:
        lack = f"{files} inodes are free, and at least {_OPEN_FILES} are needed"
    else:
        return None
    return Obstacle(f"the disk is full: {lack} to {action}", MAKE_ROOM)


def free_room(place: Path) -> int:
    """Return the free bytes on the disk of a folder."""
    return shutil.disk_usage(place).free


def _files_left(place: Path) -> int:
    """Return how many files can still be created on the disk of a folder, or ``_OPEN_FILES`` if that is unknown."""
    if not hasattr(os, "statvfs"):
        return _OPEN_FILES
    found = os.statvfs(place)
    return found.f_favail if found.f_files else _OPEN_FILES  # f_files is 0 if the file system sets no limit


def opening_room(shard: Path, place: Path, *, is_clean: bool) -> int:
    """Return the bytes that must be free in ``place`` for the engine to open the files of ``shard`` there.

    ``is_clean`` is False if the engine may have to read its log again.
    """
    needed = OPEN_ROOM
    reading_fills = is_in_memory(place)
    for name, size, occupied in file_sizes(shard):
        if not is_clean and name.startswith("wal/"):
            needed += _REPLAY * occupied
        if reading_fills and not any(part in name for part in _READ_IN_PART):
            needed += max(size - occupied, 0)
    return needed


def occupied_bytes(folder: Path) -> int:
    """Return the bytes that the files below a folder occupy on the disk."""
    return sum(occupied for _, _, occupied in file_sizes(folder))


def is_in_memory(place: Path) -> bool:
    """Return whether the folder is in a file system in memory."""
    return file_system(place) in _IN_MEMORY


def file_system(place: Path) -> str:
    """Return the kind of the file system that holds a folder, for example "ext4"; "" if the system does not tell it."""
    try:
        device = os.stat(place).st_dev
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # the system is not Linux
        return ""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    kinds = (line.split(" - ", 1)[1].split()[0] for line in mounts if line.split()[2] == wanted)
    return next(kinds, "")


def file_sizes(folder: Path) -> Iterator[tuple[str, int, int]]:
    """Yield name, size and occupied bytes of every file; skip files that another process removes meanwhile."""
    for root, _, names in os.walk(folder):
        place = Path(root).relative_to(folder)
        for name in names:
            try:
                stat = os.stat(os.path.join(root, name))
            except FileNotFoundError:
                continue
            yield (place / name).as_posix(), stat.st_size, stat.st_blocks * 512
