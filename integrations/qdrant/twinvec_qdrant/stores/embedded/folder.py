"""The folder of an embedded collection: its name on disk, its description, and who may use it.

    <path>/<name>/lock               held while the collection is open
    <path>/<name>/owner              the process that holds it, for the message to others
    <path>/<name>/collection.json    the description; replaced as a whole
    <path>/<name>/shard/             the engine's files; renamed into place when complete
    <path>/<name>/shard.copy-*/      a copy of them whose index is being built; of a name of its own, since the builder
                                     may outlive the process that began it
    <path>/<name>/shard.indexed/     that copy, complete: while it is there, it may stand in for shard/

Qdrant's embedded engine belongs to one process at a time. A second one waits here for the lock and is then told who
has it. The description lies beside the engine's files, so that a wrong model is refused before the engine, which
rewrites some of its files when it opens, is touched.
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
from twinvec.support.atomic import atomic_write, sync_files

_LONGEST_NAME = 255
_BLOCK = 64 * 1024
_COPY = "shard.copy-"


class CollectionFolder:
    """The folder of the collection ``name`` below ``path``.

    Raises:
        ConfigurationError: the name cannot be the name of a folder.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        self.path = Path(path).expanduser().resolve() / folder_name(name)
        self.shard = self.path / "shard"
        self._indexed = self.path / "shard.indexed"
        self._replaced = self.path / "shard.old"
        self._description = self.path / "collection.json"
        self._owner = self.path / "owner"
        self._lock = FileLock(self.path / "lock", thread_local=False)

    def exists(self) -> bool:
        """Whether there is a complete collection."""
        return self.shard.is_dir() or self._indexed.is_dir()

    def read_description(self) -> dict[str, Any]:
        """The collection's description; needs no lock.

        Raises:
            StoreCorruptError: it is missing or cannot be read.
        """
        try:
            description = json.loads(self._description.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise StoreCorruptError(f"{self._description}: the collection's description: {error}") from error
        if not isinstance(description, dict):
            raise StoreCorruptError(f"{self._description}: expected a mapping")
        return description

    def write_description(self, description: Mapping[str, Any]) -> None:
        """Replace the description: whoever reads it finds the old one or the new one, also after a crash.

        Raises:
            StoreUnavailableError: the folder cannot be written.
        """
        try:
            atomic_write(self._description, json.dumps(dict(description), ensure_ascii=False, indent=1))
        except OSError as error:
            raise StoreUnavailableError(f"{self._description}: cannot be written: {error}") from error

    def dense_names(self) -> list[str]:
        """Of the dense vectors that a point may have, token states among them, by the engine's own configuration."""
        return list(json.loads((self.shard / "edge_config.json").read_text(encoding="utf-8"))["vectors"])

    def check_room(self, needed: int) -> None:
        """Refuse to write where the disk is nearly full.

        The engine maps its files into memory; a mapped page that finds no room on the disk ends the process (SIGBUS).

        Raises:
            StoreUnavailableError: fewer than ``needed`` bytes are free.
        """
        free = shutil.disk_usage(self.path).free
        if free < needed:
            raise StoreUnavailableError(
                f"{self.path}: the disk is full: {free / 2**20:.0f} MB are free, and at least {needed / 2**20:.0f} MB "
                "are needed to write"
            )

    def remove(self) -> None:
        """Remove everything; killed half-way, there is no collection any more.

        Raises:
            StoreUnavailableError: it cannot be removed.
        """
        try:
            self.remove_copies()
            if self.shard.is_dir():
                self.shard.rename(self._replaced)
            shutil.rmtree(self.path)
        except OSError as error:
            raise StoreUnavailableError(f"{self.path}: cannot be removed: {error}") from error

    def copy_shard(self) -> Path:
        """Copy the engine's files, flushed before, to where an index can be built.

        Raises:
            StoreUnavailableError: there is no room for the copy and as much again, or it cannot be written.
        """
        copy = self.path / f"{_COPY}{uuid4().hex[:12]}"
        try:
            size = sum(file.stat().st_blocks * 512 for file in self.shard.rglob("*") if file.is_file())
            self.check_room(2 * size)
            shutil.copytree(self.shard, copy, copy_function=_copy_file)
        except OSError as error:
            self.remove_copies()
            raise StoreUnavailableError(f"{self.path}: cannot be copied: {error}") from error
        return copy

    def make_copy_durable(self, copy: Path) -> None:
        """Force the copy to the disk: the original goes, and the copy has to survive a power cut."""
        sync_files(copy)

    def put_copy_in_place(self, copy: Path) -> None:
        """Let the copy take the place of the engine's files, which nobody may have open; see ``settle``."""
        copy.rename(self._indexed)
        self.shard.rename(self._replaced)
        self._indexed.rename(self.shard)
        self.remove_copies()

    def settle(self) -> None:
        """Finish or undo what a killed process left half-done. Copy and original hold the same points."""
        if self._indexed.is_dir() and not self.shard.is_dir():
            self._indexed.rename(self.shard)
        self.remove_copies()

    def remove_copies(self) -> None:
        """Remove copies and what they have replaced."""
        for each in (*self.path.glob(f"{_COPY}*"), self._indexed, self._replaced):
            shutil.rmtree(each, ignore_errors=True)

    def acquire(self, wait_seconds: float) -> None:
        """Take the lock; the folder is made where it is missing.

        Raises:
            StoreBusyError: another process holds it for longer than ``wait_seconds``.
            StoreUnavailableError: the folder cannot be made or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=wait_seconds)
            self._owner.write_text(str(os.getpid()), encoding="ascii")
        except Timeout:
            raise StoreBusyError(
                f"{self.path}: in use by {self._holder()}, for more than {wait_seconds:g} s; an embedded collection "
                "belongs to one process at a time: wait for it, or use a Qdrant server"
            ) from None
        except OSError as error:
            self.release()
            raise StoreUnavailableError(f"{self.path}: cannot be opened for writing: {error}") from error

    def release(self) -> None:
        """Let go of the lock."""
        self._lock.release()

    def _holder(self) -> str:
        try:
            return f"process {int(self._owner.read_text(encoding='ascii'))}"
        except (OSError, ValueError):
            return "another process"


def _copy_file(source: str, target: str) -> None:
    """Copy a file, its holes as holes: the engine's files are much larger than what they take on the disk."""
    nothing = bytes(_BLOCK)
    with open(source, "rb") as read, open(target, "wb") as written:
        while block := read.read(_BLOCK):
            if block == nothing:
                written.seek(_BLOCK, os.SEEK_CUR)
            else:
                written.write(block)
        written.truncate()


def folder_name(name: str) -> str:
    """A collection's name as the name of a folder: other characters than letters, digits, ``_ . - ~`` are quoted.

    Raises:
        ConfigurationError: it is empty, not a string, holds a lone surrogate, or is too long.
    """
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"the name of a collection is a non-empty string, got {name!r}")
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
    """The names of the collections below ``path``."""
    try:
        folders = sorted(each.parent.name for each in Path(path).expanduser().glob("*/shard") if each.is_dir())
    except OSError:
        return []
    return [unquote(folder) for folder in folders]
