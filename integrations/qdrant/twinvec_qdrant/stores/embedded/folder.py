"""The folder of an embedded collection: its name on disk, and its files.

    <path>/<name>/collection.json    the description, always replaced as a whole
    <path>/<name>/lock, owner, turns/  see ``turns``
    <path>/<name>/shard/             the engine's files, renamed into place when complete, and their ``checksums``
    <path>/<name>/shard.copy-*/      an unfinished copy of shard/: its index is being built, or it is made before shard/
                                     is opened after a kill. Each copy has a new name, since the process that builds an
                                     index may outlive the process that started it.
    <path>/<name>/shard.indexed/     a finished copy. It is about to replace shard/, or replaces shard/ if opening that
                                     fails or is killed.
    <path>/<name>/shard.old/         the files that were replaced, about to be removed
    <path>/<name>/restored/          a complete backup, about to replace shard/ and collection.json

The engine rewrites files when it opens them. The description is outside shard/, so that a wrong model can be refused
before any file changes.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote
from uuid import uuid4

from twinvec.errors import ConfigurationError, StoreCorruptError, StoreUnavailableError
from twinvec.support.atomic import PARTIAL, atomic_write, put_in_place, sync_file, sync_files, sync_folder
from twinvec_qdrant.serving.names import check_name
from twinvec_qdrant.serving.process import store_folder
from twinvec_qdrant.stores.embedded.checksums import CLOSED, EXPECTED, HALF_WRITTEN, OPENED, Checksums, Records
from twinvec_qdrant.stores.embedded.room import Obstacle, check_room, lacking_room, occupied_bytes, opening_room

_LONGEST_NAME = 255
_BLOCK = 64 * 1024
DESCRIPTION = "collection.json"
COPY = "shard.copy-"
_SHARDS = ("shard", "restored/shard", "shard.indexed")  # a killed process may leave the files in one of the last two
REMEDY = (
    "restore a backup (twinvec restore), or repair the collection (twinvec verify --repair) and then ingest its "
    "documents again"
)
"""Advice for a damaged collection, at the end of errors."""


class CollectionFolder:
    """The folder of the collection ``name`` in the folder ``path``.

    Raises ``ConfigurationError`` as ``folder_name`` does, and ``StoreUnavailableError`` if ``path`` is a file.
    """

    def __init__(self, path: str | Path, name: str) -> None:
        self.path = store_folder(path).resolve() / folder_name(name)
        self.shard = self.path / "shard"
        self._indexed = self.path / "shard.indexed"
        self._replaced = self.path / "shard.old"
        self._description = self.path / DESCRIPTION
        self.restored = self.path / "restored"
        self.closed = self.shard / CLOSED
        self.opened = self.shard / OPENED

    def exists(self) -> bool:
        """Return whether the collection exists and is complete."""
        with os_errors(self.path, "read"):
            return any((self.path / each).is_dir() for each in _SHARDS)

    def identity(self) -> tuple[int, int] | None:
        """Return a key that changes if another folder takes the name; None if the folder does not exist."""
        try:
            found = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def newest_shard(self) -> Path:
        """Return the folder of the engine's files: ``shard``, or another folder after a kill (``settle``)."""
        restored = self.restored / self.shard.name
        if restored.is_dir():
            return restored
        is_waiting = self._indexed.is_dir() and self._is_replaced(was_given=not has_owner(self.path))
        return self._indexed if is_waiting else self.shard

    def read_description(self) -> dict[str, Any]:
        """Return the description, without a lock.

        Raises:
            StoreCorruptError: the file is missing or damaged.
            StoreUnavailableError: as for ``parsed``.
        """
        try:
            return parsed(self._newest_description())
        except (OSError, ValueError) as error:
            message = f"{self._description}: the collection's description: {error}; {REMEDY}"
            raise StoreCorruptError(message) from error

    def check_description(self, *, ours: bool = False) -> None:
        """Raise ``StoreCorruptError`` if the description differs from the copy in the checksums.

        ``ours`` says that this process has the turn. Without it, another process may open, change and close the
        collection meanwhile, so that the files are read up to three times.
        """
        for _ in range(3):
            if not ours and has_owner(self.path):
                return
            before = self._description_text()
            known = Checksums.read(self.closed)
            if known is None or known.description == before or self.restored.is_dir():
                return
        raise StoreCorruptError(f"{self._description}: the collection's description is missing or damaged; {REMEDY}")

    def write_description(self, description: Mapping[str, Any]) -> None:
        """Replace the description atomically, also against crashes; raise ``StoreUnavailableError`` if that fails."""
        with os_errors(self._description, "written"):
            atomic_write(self._description, json.dumps(dict(description), ensure_ascii=False, indent=1))

    def dense_names(self) -> list[str]:
        """Return the names of the dense vectors and token states, from the engine's configuration file."""
        return list(self._vectors())

    def dims(self) -> dict[str, int]:
        """Return the number of dimensions of each named dense vector, without token states."""
        return {name: each["size"] for name, each in self._vectors().items() if not each.get("multivector_config")}

    def _vectors(self) -> dict[str, Any]:
        vectors: dict[str, Any] = json.loads((self.shard / "edge_config.json").read_text(encoding="utf-8"))["vectors"]
        return vectors

    def obstacle(self) -> Obstacle | None:
        """Return why the engine cannot open the files where they are; None if it can."""
        shard = self.newest_shard()
        written = (self.path, shard, shard / "segments", shard / "edge_config.json", self.path / "lock")
        if any(each.exists() and not os.access(each, os.W_OK) for each in written):
            return Obstacle(
                "this process may not write to the folder, and the engine writes when it opens a collection",
                "use a user who may write there, or copy the collection to a folder that this process may write to",
            )
        return lacking_room(self.path, self.opening_room(self.path), "open it")

    def opening_room(self, place: Path) -> int:
        """Return the bytes that must be free in the folder ``place`` if the files, or a copy, are opened there."""
        shard = self.newest_shard()
        return opening_room(shard, place, is_clean=(shard / CLOSED).is_file() or not has_owner(self.path))

    def remove(self) -> None:
        """Remove the folder, or raise ``StoreUnavailableError``; a kill in the middle leaves no collection either."""
        with os_errors(self.path, "removed"):
            self.remove_copies()
            self._move_aside()
            shutil.rmtree(self.path)

    def copied_to(self, place: Path) -> CollectionFolder:
        """Copy the collection to the folder ``place``, as ``settle`` would leave it; nobody may write meanwhile."""
        copy = CollectionFolder(place, "collection")
        copy.path.mkdir()
        copied_tree(self.newest_shard(), copy.shard)
        shutil.copyfile(self._newest_description(), copy._description)
        forget_outdated(self.path, copy.shard)
        return copy

    def copy_shard(self) -> Path:
        """Copy the engine's flushed files; raise ``StoreUnavailableError`` if there is no room for twice their size."""
        copy = self.path / f"{COPY}{uuid4().hex[:12]}"
        with os_errors(self.path, "copied"):
            size = occupied_bytes(self.shard)
            check_room(self.path, 2 * size, "build an index")
            try:
                copied_tree(self.shard, copy)
            except OSError:
                self.remove_copies()
                raise
        return copy

    def put_copy_in_place(self, copy: Path) -> None:
        """Replace the engine's files by the copy, and remove all other copies. The files must be closed.

        If a kill interrupts this, ``settle`` completes it.
        """
        copy.rename(self._indexed)
        self.put_kept_in_place()
        self.remove_copies()

    def keep(self, copy: Path) -> None:
        """Force a copy to the disk, and keep it: after a kill before ``drop_kept``, ``settle`` puts it in place."""
        sync_files(copy)
        sync_file(self.path / "owner")  # after a power cut, ``settle`` must know that the turn did not end
        copy.rename(self._indexed)
        sync_folder(self.path)

    def has_kept(self) -> bool:
        """Return whether a copy is kept."""
        return self._indexed.is_dir()

    def drop_kept(self) -> None:
        """Remove the kept copy; first rename it, so that it cannot replace files that change from now on."""
        dropped = self.path / f"{COPY}{uuid4().hex[:12]}"
        self._indexed.rename(dropped)
        sync_folder(self.path)
        shutil.rmtree(dropped, ignore_errors=True)

    def put_kept_in_place(self) -> None:
        """Replace the engine's files, which must be closed, by the kept copy; they stay until the copy is in place."""
        self._move_aside()
        self._indexed.rename(self.shard)
        sync_folder(self.path)
        shutil.rmtree(self._replaced, ignore_errors=True)

    def _move_aside(self) -> None:
        """Rename ``shard``, if it exists, to ``shard.old``."""
        if self.shard.is_dir():
            shutil.rmtree(self._replaced, ignore_errors=True)
            self.shard.rename(self._replaced)

    def _is_replaced(self, *, was_given: bool) -> bool:
        """Return whether a killed process has left ``shard.indexed`` to replace the engine's files.

        If a turn has ended since (``was_given``), or the files were closed, ``shard.indexed`` is out of date.
        """
        return not self.shard.is_dir() or not (was_given or self.closed.is_file())

    def settle(self, *, was_given: bool, alone: bool = True) -> None:
        """Complete a replacement of files that a killed process has begun; with ``alone``, also remove copies.

        ``was_given`` says whether the last turn ended by ``Turns.give``. An error is a ``StoreUnavailableError``.
        """
        with os_errors(self.path, "put in order"):
            if self._indexed.is_dir():
                if self._is_replaced(was_given=was_given):
                    self.put_kept_in_place()
                else:
                    self.drop_kept()
            if self.restored.is_dir():
                self.put_restored_in_place()
        if alone:
            self.remove_copies()

    def remove_copies(self) -> None:
        """Remove all copies, and the files that a copy has replaced."""
        for each in (*self.path.glob(f"{COPY}*"), *self.path.glob(f"*{PARTIAL}"), self._indexed, self._replaced):
            shutil.rmtree(each, ignore_errors=True)

    def put_restored_in_place(self) -> None:
        """Replace the collection by the complete backup in ``restored``; ``settle`` completes this after a kill."""
        new, description = self.restored / "shard", self.restored / DESCRIPTION
        if new.is_dir():
            self._move_aside()
            if description.is_file():
                description.replace(self._description)
            new.rename(self.shard)
        shutil.rmtree(self.restored)
        shutil.rmtree(self._replaced, ignore_errors=True)

    def checksums(self) -> tuple[Checksums | None, Checksums | None]:
        """Return the checksums of closed files, and those of the last close before a kill; one of the two is None."""
        if not self.closed.is_file():
            return None, Checksums.read(self.opened)
        return Checksums.read(self.closed), None

    def mark_opened(self, known: Checksums | None) -> None:
        """Mark the files as open: from now on they may differ from ``known``."""
        with os_errors(self.path, "opened for writing"):
            if known is not None:
                put_in_place(self.closed, self.opened)
            else:
                self.closed.unlink(missing_ok=True)

    def list_copy(self, copy: Path) -> None:
        """Write the checksums of a copy that will be opened in place; raise ``StoreUnavailableError`` if that fails."""
        with os_errors(self.path, "copied"):
            Checksums.taken(copy, {}, self._description_text(), None).write(copy / OPENED)

    def forget_files(self, part: str) -> None:
        """Before the engine removes the files whose path has ``part``, remove them from the last close's checksums."""
        if (known := Checksums.read(self.opened)) is not None:
            known.without(part).write(self.opened)

    def write_checksums(self, counts: Mapping[str, int], records: Records | None, known: Checksums | None) -> None:
        """Write the checksums of the closed files; checksums in ``known`` may be reused.

        First, the files that a killed engine has left half written are removed.
        """
        with os_errors(self.path, "closed"):
            for each in list(self.shard.rglob(f"{HALF_WRITTEN}*")):
                shutil.rmtree(each, ignore_errors=True)
            taken = Checksums.taken(self.shard, counts, self._description_text(), known)
            replace(taken, records=records).write(self.closed)
            self.opened.unlink(missing_ok=True)
            (self.shard / EXPECTED).unlink(missing_ok=True)

    def _newest_description(self) -> Path:
        coming = self.restored / DESCRIPTION
        return coming if coming.is_file() else self._description

    def _description_text(self) -> str:
        try:
            return self._description.read_text(encoding="utf-8")
        except OSError as error:
            _refuse_unreadable(self._description, error)
            return ""
        except UnicodeDecodeError:
            return ""


@contextmanager
def os_errors(place: Path, action: str) -> Iterator[None]:
    """Raise an ``OSError`` of the block as ``StoreUnavailableError`` with the text "<place> cannot be <action>"."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(f"{place}: cannot be {action}: {error.strerror or error}") from error


def too_many_files(error: BaseException) -> bool:
    """Return whether an error of the system or of the engine says that too many files are open."""
    return os.strerror(errno.EMFILE) in str(error)


def copied_file(source: str, target: str) -> None:
    """Copy a sparse file as a sparse file: the engine's files occupy much less of the disk than their size."""
    with open(source, "rb") as read, open(target, "wb") as written:
        copy_with_holes(read, written)


def copied_tree(source: Path, target: Path, copy_file: Callable[[str, str], None] = copied_file) -> None:
    """Copy a folder of the engine's files with their holes; make the copied folders writable."""
    try:
        shutil.copytree(source, target, copy_function=copy_file)
    except shutil.Error as error:  # the error lists one failure for each file, often the same failure
        _, failed, reason = error.args[0][0]
        raise OSError(f"{failed}: {reason}") from error
    finally:
        for folder, _, _ in os.walk(target):  # copies of read-only folders are read-only, too
            os.chmod(folder, os.stat(folder).st_mode | stat.S_IRWXU)


def copy_with_holes(read: IO[bytes], written: IO[bytes]) -> None:
    """Copy to a new file; blocks of zeros become holes."""
    hole = bytes(_BLOCK)
    while block := read.read(_BLOCK):
        if block == hole:
            written.seek(_BLOCK, os.SEEK_CUR)
        else:
            written.write(block)
    written.truncate()


def folder_name(name: str) -> str:
    """Return a collection's percent-encoded folder name; raise ``ConfigurationError`` if the name is unusable."""
    check_name(name)
    try:
        quoted = quote(name, safe="")
    except UnicodeEncodeError:
        raise ConfigurationError(f"collection {name!r}: the name is not valid Unicode (a lone surrogate)") from None
    if quoted.startswith("."):
        quoted = "%2E" + quoted[1:]
    if len(quoted) > _LONGEST_NAME:
        raise ConfigurationError(f"collection {name[:40]!r}...: the name is too long for the name of a folder")
    return quoted


def collection_names(path: str | Path) -> list[str]:
    """Return the names of the collections in the folder ``path``, which may be missing.

    A folder that this process may not enter, such as the ``lost+found`` of a disk, is left out.

    Raises:
        StoreUnavailableError: ``path`` cannot be read.
    """
    store = Path(path).expanduser()
    try:
        folders = sorted(os.listdir(store))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreUnavailableError(f"{store}: cannot be read: {error.strerror}") from error
    return [unquote(each) for each in folders if any(os.path.isdir(store / each / at) for at in _SHARDS)]


def has_owner(folder: Path) -> bool:
    """Return whether a process has the turn, was killed in its turn, or runs an older version of twinvec."""
    return bool(_owner(folder))


def forget_outdated(folder: Path, shard: Path | None = None) -> None:
    """Remove the checksums in ``shard`` if version 0.2.0 has had the collection open, because it does not update them.

    Version 0.2.0 is recognised by the process id that it leaves (``turns``); the next process replaces this id.
    """
    if _owner(folder).isdigit():
        for name in (CLOSED, EXPECTED):
            ((shard or folder / "shard") / name).unlink(missing_ok=True)


def _owner(folder: Path) -> bytes:
    try:
        return (folder / "owner").read_bytes()
    except OSError:
        return b""


def _refuse_unreadable(path: Path, error: OSError) -> None:
    """Raise ``StoreUnavailableError`` if the error is not due to the file: no permission, or too many open files."""
    if isinstance(error, PermissionError) or too_many_files(error):
        raise StoreUnavailableError(f"{path}: cannot be read: {error.strerror}") from error


def parsed(path: Path) -> dict[str, Any]:
    """Return the mapping in a JSON file.

    Raises:
        StoreUnavailableError: too many files are open, or this process may not read the file.
        OSError, ValueError: the file is missing or damaged.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        _refuse_unreadable(path, error)
        raise
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError("expected a mapping")
    return values
