"""Walking: a folder -> its files, in the order of their names.

These are skipped: hidden files and folders that no pattern names, Office's lock files, the thumbnails of Windows,
caches, virtual environments, ``node_modules``, embedded collections, paths that the patterns exclude, links to folders,
and links to files outside the folder. A file that several links reach is found once, by the first path.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from twinvec.interrupts import raise_of_handler
from twinvec_qdrant.ingest.reading.patterns import GITIGNORE, Ignored, Selection, is_hidden, is_ignored, read_gitignore
from twinvec_qdrant.ingest.reading.results import Failure, hiding, printable

_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}
_FOLDER_MARKS = ("CACHEDIR.TAG", "pyvenv.cfg")  # files that mark a cache and a virtual environment
_LOCK_FILE = "~$"  # prefix of the file that Word and Excel keep beside an open document
_THUMBNAILS = {"Thumbs.db", "ehthumbs.db"}  # files that Windows keeps in folders with pictures
# files of an embedded collection, perhaps of the one that is being filled
_STORE_MARKS = {"collection.json", "lock", "owner"}


class FoundFile(NamedTuple):
    """A file: its path, its place, and its size in bytes.

    The place is the relative path in the folder, such as "deep/file.md", or the name of a file without a folder.
    """

    path: Path
    place: str
    size: int
    in_folder: bool = True

    @property
    def prefix(self) -> str:
        """Prefix of the ids of the file's records."""
        return f"{self.place}/" if self.in_folder else ""


class _Entry(NamedTuple):
    """A file or folder to read; ``place`` is its relative path: "deep/" for a folder, "" for the walked folder."""

    path: Path
    place: str
    is_link: bool = False
    ignored: tuple[Ignored, ...] = ()

    @property
    def is_folder(self) -> bool:
        return not self.place or self.place.endswith("/")


class Walk:
    """The files below one folder, which can be walked again and again."""

    def __init__(self, folder: Path, selection: Selection, *, gitignore: bool) -> None:
        self._folder = folder
        self._selection = selection
        self._gitignore = gitignore

    def files(self) -> Iterator[FoundFile | Failure]:
        """Yield the files, and a failure for each folder that cannot be listed."""
        inside = os.path.join(os.path.realpath(self._folder), "")
        seen: set[int] = set()
        left = [_Entry(self._folder, "")]
        while left:
            entry = left.pop()
            if not entry.is_folder:
                if (found := _found(entry, inside, seen)) is not None:
                    yield found
                continue
            try:
                left += reversed(self._entries(entry))
            except OSError as error:
                raise_of_handler(error)
                wrong = f"folder cannot be listed: {error.strerror}"
                yield hiding(printable(entry.place) or ".", wrong, entry.place)

    def empty_folders(self) -> Iterator[str]:
        """Yield the places of the folders below that hold nothing at all, as where a disk is not mounted."""
        left = [_Entry(self._folder, "")]
        while left:
            folder = left.pop()
            try:
                below = self._entries(folder)
                is_empty = not below and not os.listdir(folder.path)
            except OSError as error:  # ``files`` yields the failure
                raise_of_handler(error)
                continue
            left += [each for each in below if each.is_folder]
            if is_empty and folder.place:
                yield folder.place

    def follows(self, path: Path) -> bool:
        """Return whether a change of this path may change what the walk finds."""
        try:
            parts = path.relative_to(self._folder).parts
        except ValueError:
            return False
        if parts and parts[-1] == GITIGNORE and self._gitignore:
            parts = parts[:-1]
        folder = _Entry(self._folder, "")
        for depth, name in enumerate(parts, 1):
            try:
                names = os.listdir(folder.path)
                if _is_marked(folder, names):
                    return False
                ignored = self._ignored(folder, names)
            except OSError:  # the folder is gone
                ignored = folder.ignored
            below = folder.path / name
            place = f"{folder.place}{name}{'/' if depth < len(parts) or os.path.isdir(below) else ''}"
            if self._leaves_out(name, place, ignored):
                return False
            folder = _Entry(below, place, ignored=ignored)
        return True

    def _entries(self, folder: _Entry) -> list[_Entry]:
        """Return the files and folders to read in a folder, in the order of their names."""
        with os.scandir(folder.path) as listing:
            entries = {entry.name: entry for entry in listing}
        if _is_marked(folder, entries.keys()):
            return []
        ignored = self._ignored(folder, entries.keys())
        found = []
        for name, entry in sorted(entries.items()):
            place = f"{folder.place}{name}{'/' if entry.is_dir(follow_symlinks=False) else ''}"
            if not self._leaves_out(name, place, ignored):
                found.append(_Entry(folder.path / name, place, entry.is_symlink(), ignored))
        return found

    def _ignored(self, folder: _Entry, names: Collection[str]) -> tuple[Ignored, ...]:
        if not self._gitignore or GITIGNORE not in names:
            return folder.ignored
        own = read_gitignore(folder.path / GITIGNORE, folder.place)
        return folder.ignored if own is None else (*folder.ignored, own)

    def _leaves_out(self, name: str, place: str, ignored: tuple[Ignored, ...]) -> bool:
        if name in _SKIPPED_FOLDERS or (is_hidden(place) and not self._selection.takes_hidden(place)):
            return True
        if (name.startswith(_LOCK_FILE) or name in _THUMBNAILS) and not place.endswith("/"):
            return True
        return is_ignored(place, ignored) or self._selection.leaves_out(place)


def _is_marked(folder: _Entry, names: Collection[str]) -> bool:
    """Return whether a folder is a cache, a virtual environment or an embedded collection; never the walked folder."""
    names = set(names)
    return bool(folder.place) and (names >= _STORE_MARKS or not names.isdisjoint(_FOLDER_MARKS))


def _found(entry: _Entry, inside: str, seen: set[int]) -> FoundFile | None:
    """Return the file, unless it was seen before, is outside the folder, or is a link to a folder."""
    try:
        if entry.is_link and (entry.path.is_dir() or not os.path.realpath(entry.path).startswith(inside)):
            return None
        status = os.stat(entry.path)
    except OSError:  # reading the file will report the reason
        return FoundFile(entry.path, entry.place, 0)
    key = status.st_dev << 64 | status.st_ino
    if status.st_ino and key in seen:
        return None
    seen.add(key)
    return FoundFile(entry.path, entry.place, status.st_size)
