"""Back up and restore a collection of an embedded store; send and receive backups as archives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from twinvec.errors import (
    CollectionNotFoundError,
    ConfigurationError,
    InputError,
    StoreCorruptError,
    StoreUnavailableError,
)
from twinvec.support.checks import check_flags, file_path, number, path_text, string
from twinvec.support.locks import TemporaryFolder, place_for_temporary_files, remove_abandoned
from twinvec_qdrant.report import Backup
from twinvec_qdrant.serving.process import DEFAULT_PATH, check_not_served, store_folder

_PREFIX = ".twinvec-backup-"  # no collection's folder has such a name, because their names never begin with a dot
_FILES = "backup"


def backup_collection(
    name: str, to: str | Path, path: str | Path | None = None, *, overwrite: bool = False, wait_seconds: float = 10.0
) -> Backup:
    """Copy a collection of the embedded store to a folder, even while other processes use the collection.

    The copy has the state of one moment. Other processes and threads wait while the files are copied.

    Args:
        name: Name of the collection.
        to: The folder to make. It appears when the backup is complete.
        path: Folder of the embedded store; default: ``./.twinvec``.
        overwrite: Replace an older backup in the folder ``to``, once the new one is complete.
        wait_seconds: How long to wait for another process that uses the store.

    Raises:
        CollectionNotFoundError: the collection does not exist.
        ConfigurationError: ``to`` exists and ``overwrite`` is False; ``to`` holds anything but a backup; another
            process is writing to it; or ``to`` is in the folder of the store.
        StoreBusyError: another process keeps using the store.
        StoreCorruptError: the collection is damaged.
        StoreUnavailableError: the backup cannot be written; no part of it is left.
    """
    from twinvec_qdrant.stores.embedded.backups import back_up
    from twinvec_qdrant.stores.embedded.store import EmbeddedStore

    check_flags(overwrite=overwrite)
    wait_seconds, place = number(wait_seconds, "wait_seconds", least=0), file_path(to, "to").resolve()
    store = EmbeddedStore(_store_path(path), string(name, "name"), wait_seconds)
    if store.peek() is None:
        raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
    with closing(store.open()) as backend:
        return back_up(backend, name, place, overwrite=overwrite)


def restore_collection(
    source: str | Path,
    path: str | Path | None = None,
    *,
    name: str | None = None,
    overwrite: bool = False,
    wait_seconds: float = 10.0,
) -> Backup:
    """Restore a collection of the embedded store from a backup, after a check of the backup's files.

    If the process is killed meanwhile, the store holds either the old collection or the restored one.

    Args:
        source: The folder of the backup.
        path: Folder of the embedded store; default: ``./.twinvec``.
        name: Name of the restored collection; default: the collection's name in the backup.
        overwrite: Replace an existing collection of this name.
        wait_seconds: How long to wait until no other process has the collection open.

    Raises:
        ConfigurationError: ``source`` is not a backup; the collection exists and ``overwrite`` is False; or ``path`` is
            a folder of qdrant-client's local mode.
        StoreBusyError: the collection is open, in this process or in another.
        StoreCorruptError: the backup is damaged; the store is as before.
        StoreUnavailableError: the collection cannot be written; the store is as before.
    """
    from twinvec_qdrant.stores.embedded.backups import read_backup, restore
    from twinvec_qdrant.stores.embedded.folder import CollectionFolder
    from twinvec_qdrant.stores.embedded.store import check_not_local_mode

    check_flags(overwrite=overwrite)
    place, wait_seconds = file_path(source, "source").resolve(), number(wait_seconds, "wait_seconds", least=0)
    store, about = _store_path(path), read_backup(place)
    check_not_served(store)
    folder = CollectionFolder(store, about.collection if name is None else name)
    if not folder.exists():
        check_not_local_mode(store)
    restore(place, folder, overwrite=overwrite, wait_seconds=wait_seconds)
    return about


class TemporaryBackup(TemporaryFolder):
    """A backup in a temporary folder: ``packed`` yields it as a tar archive, and ``remove`` deletes it.

    The folder lies next to the store if its disk has room, else in the system's temporary folder (``TMPDIR``).
    Arguments and errors are those of ``backup_collection``.
    """

    def __init__(self, name: str, path: str | Path | None = None) -> None:
        place = _place_with_room(name, _store_path(path))
        try:
            super().__init__(_PREFIX, place)
        except OSError as error:
            raise StoreUnavailableError(f"cannot make a backup in {place}: {error.strerror or error}") from error
        try:
            backup_collection(name, self.path / _FILES, path)
        except BaseException:
            self.remove()
            raise

    def packed(self) -> Iterator[bytes]:
        """Yield the backup as a tar archive, in pieces."""
        from twinvec_qdrant.stores.embedded.archives import packed

        return packed(self.path / _FILES)

    @staticmethod
    def remove_abandoned(path: str | Path | None = None) -> list[Path]:
        """Remove the temporary backups that killed processes have left, and return their paths."""
        return [each for place in _places(_store_path(path)) for each in remove_abandoned(_PREFIX, place)]


class ReceivedBackup(TemporaryFolder):
    """A backup that arrives as a tar archive, in a temporary folder of the store; ``remove`` deletes the folder.

    Args:
        pieces: The archive, in pieces.
        path: Folder of the embedded store; default: ``./.twinvec``.

    Raises:
        InputError: the archive is not that of a backup, or is damaged.
        StoreUnavailableError: the disk is full, or the folder cannot be written.
    """

    def __init__(self, pieces: Iterator[bytes], path: str | Path | None = None) -> None:
        from twinvec_qdrant.stores.embedded.archives import unpack
        from twinvec_qdrant.stores.embedded.backups import read_backup

        self._store = store_folder(_store_path(path)).resolve()
        with self._archive_errors():
            self._store.mkdir(parents=True, exist_ok=True)
            super().__init__(_PREFIX, self._store)
        try:
            self._files = self.path / _FILES
            with self._archive_errors():
                self._files.mkdir()
                unpack(_Arriving(pieces, self._store), self._files)
                self.about = read_backup(self._files)
            for _ in pieces:  # reads the bytes after the end of the archive, which the sender still sends
                pass
        except BaseException:
            self.remove()
            raise

    def restore(self, name: str) -> Backup:
        """Check the files, and make them the collection ``name``.

        If an error occurs or the process is killed, the store holds the whole collection or no part of it.

        Raises:
            InputError: files are missing or changed, the collection exists, or the store is a folder of
                qdrant-client's local mode.
            StoreBusyError: another process makes a collection of this name.
        """
        from twinvec_qdrant.stores.embedded.backups import restore
        from twinvec_qdrant.stores.embedded.folder import CollectionFolder
        from twinvec_qdrant.stores.embedded.store import check_not_local_mode

        with self._archive_errors():
            check_not_local_mode(self._store)
            restore(self._files, CollectionFolder(self._store, name), overwrite=False, wait_seconds=10.0, move=True)
        return self.about

    @contextmanager
    def _archive_errors(self) -> Iterator[None]:
        try:
            yield
        except (ConfigurationError, StoreCorruptError) as error:
            raise InputError(str(error).replace(str(self._files), "the archive")) from error
        except OSError as error:
            raise StoreUnavailableError(f"{self._store}: cannot be written: {error.strerror or error}") from error


class _Arriving:
    """Reads an archive while its pieces arrive; raises StoreUnavailableError if the store's disk has no room left."""

    def __init__(self, pieces: Iterator[bytes], store: Path) -> None:
        self._pieces = pieces
        self._store = store
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        """Return the next bytes, ``size`` or fewer; b"" at the end."""
        from twinvec_qdrant.stores.embedded.room import WRITE_ROOM, check_room

        if not self._rest:
            self._rest = memoryview(next(self._pieces, b""))
        found, self._rest = self._rest[:size], self._rest[size:]
        check_room(self._store, WRITE_ROOM + len(found), "restore the backup")
        return bytes(found)


def _store_path(path: str | Path | None) -> str:
    """Return the folder of the store, which is the default folder if ``path`` is None. An empty path is an error."""
    return path_text(DEFAULT_PATH if path is None else path, "path")


def _places(path: str | Path) -> list[Path]:
    places = store_folder(path).resolve(), place_for_temporary_files()
    return [each for each in places if each is not None]


def _place_with_room(name: str, path: str | Path) -> Path:
    """Return a folder on a disk with room for a copy of the collection and for writes to the store meanwhile."""
    from twinvec_qdrant.stores.embedded.folder import CollectionFolder
    from twinvec_qdrant.stores.embedded.room import WRITE_ROOM, free_room, occupied_bytes

    needed = occupied_bytes(CollectionFolder(path, name).newest_shard()) + WRITE_ROOM
    found = {each: free_room(each) if os.access(each, os.W_OK | os.X_OK) else 0 for each in _places(path)}
    for place, free in found.items():
        if free >= needed:
            return place
    told = ", ".join(f"{place}: {free / 2**20:.0f} MB" for place, free in found.items())
    raise StoreUnavailableError(
        f"a backup of {name!r} needs {needed / 2**20:.0f} MB for temporary files, and the free space is {told}; make "
        "room, or set the environment variable TMPDIR of the server to a folder with room"
    )
