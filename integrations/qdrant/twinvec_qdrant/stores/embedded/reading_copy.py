"""Reading copies: how a collection is read on a full or read-only disk, where the engine cannot open it.

The engine cannot open files for reading only: it writes to them, and replaces some. So twinvec copies them to a folder
for temporary files and opens the copy, to which nobody can write. The copy is removed when the collection is closed,
when the original has changed, and when the original can be opened again.

    <temporary files>/twinvec-read-*/held          locked while the process that uses the copy is alive
    <temporary files>/twinvec-read-*/collection/   the copy, laid out as in ``folder``
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from twinvec.errors import StoreUnavailableError
from twinvec.support.locks import TemporaryFolder, place_for_temporary_files, remove_abandoned
from twinvec_qdrant.stores.embedded.folder import CollectionFolder
from twinvec_qdrant.stores.embedded.room import free_room, occupied_bytes

logger = logging.getLogger(__name__)

_PREFIX = "twinvec-read-"
_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_USUAL = ("/tmp", "/var/tmp", "/dev/shm")


class ReadingCopy:
    """A copy of ``original`` for reading; ``obstacle`` says why the original cannot be opened.

    The original must not change while it is copied. Raises ``StoreUnavailableError`` if no folder for temporary files
    has room.

    Attributes:
        place: The folder for temporary files that holds the copy.
        folder: The copy.
    """

    def __init__(self, original: CollectionFolder, obstacle: str) -> None:
        self._original = original
        self._stamp = _stamp(original)
        place = _place_with_room(original, obstacle)
        self._temporary: TemporaryFolder | None = None
        try:
            self._temporary = TemporaryFolder(_PREFIX, place)
            self.place = self._temporary.path
            self.folder = original.copied_to(self.place)
        except OSError as error:
            self.remove()
            raise StoreUnavailableError(
                f"{original.path}: {obstacle}; a copy for reading cannot be made: {error.strerror or error}"
            ) from error
        except BaseException:
            self.remove()
            raise
        size = occupied_bytes(self.folder.path) / 2**20
        logger.warning(
            "%s: %s; reading from a copy of %.0f MB in %s. Nobody can write to it, and changes by another process "
            "are seen when that process has closed the collection",
            original.path,
            obstacle,
            size,
            self.place,
        )

    def is_outdated(self) -> bool:
        """Return whether the original was removed, was changed and closed, or can be opened again."""
        now = _stamp(self._original)
        is_changed = now is not None and now != self._stamp
        return is_changed or not self._original.exists() or self._original.obstacle() is None

    def remove(self) -> None:
        """Remove the copy from the disk."""
        if self._temporary is not None:
            self._temporary.remove()


def _stamp(folder: CollectionFolder) -> tuple[int, int] | None:
    """Return a key that differs for every close of the collection; None while the collection is open."""
    try:
        stat = folder.closed.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def _place_with_room(original: CollectionFolder, obstacle: str) -> Path:
    """Return the first folder for temporary files that has room for a copy."""
    size = occupied_bytes(original.newest_shard())
    found = []
    for place in _temporary_folders():
        remove_abandoned(_PREFIX, place)
        needed = size + original.opening_room(place)
        free = free_room(place)
        if free >= needed:
            return place
        found.append(f"{place}: {free / 2**20:.0f} of {needed / 2**20:.0f} MB")
    raise StoreUnavailableError(
        f"{original.path}: {obstacle}; there is no room for a copy for reading ({', '.join(found) or 'no folder'}): "
        "make room, or name a folder with room in the environment variable TMPDIR"
    )


def _temporary_folders() -> Iterator[Path]:
    """Yield the folders for temporary files that this process may write, first those in environment variables."""
    named = [os.environ[name] for name in _VARIABLES if os.environ.get(name)]
    places = *map(Path, named), place_for_temporary_files(), *map(Path, _USUAL)
    for place in dict.fromkeys(places):
        if place is not None and place.is_dir() and os.access(place, os.W_OK | os.X_OK):
            yield place
