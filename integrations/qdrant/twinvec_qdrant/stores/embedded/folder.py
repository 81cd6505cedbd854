"""The folder of an embedded collection: its name on disk, its files, and its lock.

    <path>/<name>/lock               held while the collection is open
    <path>/<name>/owner              id of the process that holds the lock, for the error in other processes
    <path>/<name>/collection.json    the description, always replaced as a whole
    <path>/<name>/shard/             the engine's files, renamed into place when complete
    <path>/<name>/shard.copy-*/      a copy of shard/ whose index is being built; each copy has a new name, since its
                                     builder may outlive the process that started it
    <path>/<name>/shard.indexed/     a copy with a complete index, about to replace shard/
    <path>/<name>/shard.old/         the files that it has replaced, about to be removed

Qdrant's embedded engine serves one process at a time; a second process waits for the lock. The engine rewrites files
when it opens, so the description lies outside shard/: a wrong model is refused before the engine opens.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

from filelock import FileLock, Timeout

from twinvec.errors import ConfigurationError, StoreBusyError, StoreCorruptError, StoreUnavailableError
from twinvec.support.atomic import atomic_write

_LONGEST_NAME = 255
_BLOCK = 64 * 1024
_COPY = "shard.copy-"


class CollectionFolder:
    """The folder of the collection ``name`` in the folder ``path``; raises as ``folder_name`` does."""

    def __init__(self, path: str | Path, name: str) -> None:
        self.path = Path(path).expanduser().resolve() / folder_name(name)
        self.shard = self.path / "shard"
        self._indexed = self.path / "shard.indexed"
        self._replaced = self.path / "shard.old"
        self._description = self.path / "collection.json"
        self._owner = self.path / "owner"
        self._lock = FileLock(self.path / "lock", thread_local=False)

    def exists(self) -> bool:
        """Return whether the collection exists and is complete."""
        return self.shard.is_dir() or self._indexed.is_dir()

    def read_description(self) -> dict[str, Any]:
        """Return the description, without a lock; raise ``StoreCorruptError`` if the file is missing or damaged."""
        try:
            description = json.loads(self._description.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreCorruptError(f"{self._description}: the collection's description: {error}") from error
        if not isinstance(description, dict):
            raise StoreCorruptError(f"{self._description}: expected a mapping")
        return description

    def write_description(self, description: Mapping[str, Any]) -> None:
        """Replace the description atomically, also against crashes; raise ``StoreUnavailableError`` if that fails."""
        try:
            atomic_write(self._description, json.dumps(dict(description), ensure_ascii=False, indent=1))
        except OSError as error:
            raise StoreUnavailableError(f"{self._description}: cannot be written: {error}") from error

    def dense_names(self) -> list[str]:
        """Return the names of the dense vectors and token states, from the engine's configuration file."""
        return list(json.loads((self.shard / "edge_config.json").read_text(encoding="utf-8"))["vectors"])

    def check_room(self, needed: int) -> None:
        """Raise ``StoreUnavailableError`` if fewer than ``needed`` bytes are free on the disk.

        The engine maps its files into memory; if the disk has no room for a mapped page, the process dies (SIGBUS).
        """
        free = shutil.disk_usage(self.path).free
        if free < needed:
            raise StoreUnavailableError(
                f"{self.path}: the disk is full: {free / 2**20:.0f} MB are free, and at least {needed / 2**20:.0f} MB "
                "are needed to write"
            )

    def remove(self) -> None:
        """Remove the folder, or raise ``StoreUnavailableError``; a kill in between leaves no collection."""
        try:
            self.remove_copies()
            if self.shard.is_dir():
                self.shard.rename(self._replaced)
            shutil.rmtree(self.path)
        except OSError as error:
            raise StoreUnavailableError(f"{self.path}: cannot be removed: {error}") from error

    def copy_shard(self) -> Path:
        """Copy the engine's flushed files; raise ``StoreUnavailableError`` without room for twice their size."""
        copy = self.path / f"{_COPY}{uuid4().hex[:12]}"
        try:
            size = sum(file.stat().st_blocks * 512 for file in self.shard.rglob("*") if file.is_file())
            self.check_room(2 * size)
            shutil.copytree(self.shard, copy, copy_function=_copy_file)
        except OSError as error:
            self.remove_copies()
            raise StoreUnavailableError(f"{self.path}: cannot be copied: {error}") from error
        return copy

    def put_copy_in_place(self, copy: Path) -> None:
        """Replace the engine's files, which must be closed, by the copy; ``settle`` completes this after a kill."""
        copy.rename(self._indexed)
        self.shard.rename(self._replaced)
        self._indexed.rename(self.shard)
        self.remove_copies()

    def settle(self) -> None:
        """Complete or undo the replacement that a killed process left; copy and original hold the same points."""
        if self._indexed.is_dir() and not self.shard.is_dir():
            self._indexed.rename(self.shard)
        self.remove_copies()

    def remove_copies(self) -> None:
        """Remove all copies, and the files that a copy has replaced."""
        for each in (*self.path.glob(f"{_COPY}*"), self._indexed, self._replaced):
            shutil.rmtree(each, ignore_errors=True)

    def acquire(self, wait_seconds: float) -> None:
        """Take the lock in the folder, which is created if missing.

        Raise ``StoreBusyError`` if another process holds the lock for more than ``wait_seconds``.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=wait_seconds)
            self._owner.write_text(str(os.getpid()), encoding="ascii")
        except Timeout:
            raise StoreBusyError(
                f"{self.path}: in use by {self._holder()} for more than {wait_seconds:g} s; only one process at a time "
                "can open an embedded collection: wait for that process, or use a Qdrant server"
            ) from None
        except OSError as error:
            self.release()
            raise StoreUnavailableError(f"{self.path}: cannot be opened for writing: {error}") from error

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def _holder(self) -> str:
        try:
            return f"process {int(self._owner.read_text(encoding='ascii'))}"
        except (OSError, ValueError):
            return "another process"


def _copy_file(source: str, target: str) -> None:
    """Copy a sparse file as a sparse file: the engine's files occupy much less of the disk than their size."""
    hole = bytes(_BLOCK)
    with open(source, "rb") as read, open(target, "wb") as written:
        while block := read.read(_BLOCK):
            if block == hole:
                written.seek(_BLOCK, os.SEEK_CUR)
            else:
                written.write(block)
        written.truncate()


def folder_name(name: str) -> str:
    """Return a collection's percent-encoded folder name; raise ``ConfigurationError`` if the name is unusable."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a collection must be a non-empty string, got {name!r}")
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise ConfigurationError(f"collection {name!r}: the name holds a lone surrogate") from None
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) > _LONGEST_NAME:
        raise ConfigurationError(f"collection {name[:40]!r}...: the name is too long for a folder")
    return quoted


def collection_names(path: str | Path) -> list[str]:
    """Return the names of the collections in the folder ``path``."""
    try:
        folders = sorted(each.parent.name for each in Path(path).expanduser().glob("*/shard") if each.is_dir())
    except OSError:
        return []
    return [unquote(folder) for folder in folders]
