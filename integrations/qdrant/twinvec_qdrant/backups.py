"""Back up and restore a collection of an embedded store; pack a backup for a client of ``twinvec serve``."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from twinvec.errors import CollectionNotFoundError, StoreUnavailableError
from twinvec.support.checks import file_path, number, string
from twinvec.support.locks import TemporaryFolder, remove_abandoned
from twinvec_qdrant.report import Backup
from twinvec_qdrant.serving.process import DEFAULT_PATH, check_not_served, store_folder

_PREFIX = ".twinvec-backup-"  # the name of a collection's folder never begins with a dot
_FILES = "backup"


def backup_collection(
    name: str,
    to: str | Path,
    path: str | Path | None = None,
    *,
    overwrite: bool = False,
    wait_seconds: float = 10.0,
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
        ConfigurationError: ``to`` exists and ``overwrite`` is False; ``to`` holds anything but a backup; or ``to`` is
            in the folder of the collection, or directly in the folder of the store.
        StoreBusyError: another process keeps using the store.
        StoreCorruptError: the collection is damaged.
        StoreUnavailableError: the backup cannot be written; no part of it is left.
    """
    from twinvec_qdrant.stores.embedded.backups import back_up
    from twinvec_qdrant.stores.embedded.store import EmbeddedStore

    wait_seconds, place = number(wait_seconds, "wait_seconds", least=0), file_path(to, "to").resolve()
    store = EmbeddedStore(path or DEFAULT_PATH, string(name, "name"), wait_seconds)
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

    place, wait_seconds = file_path(source, "source").resolve(), number(wait_seconds, "wait_seconds", least=0)
    about = read_backup(place)
    check_not_served(path or DEFAULT_PATH)
    folder = CollectionFolder(path or DEFAULT_PATH, about.collection if name is None else name)
    if not folder.exists():
        check_not_local_mode(path or DEFAULT_PATH)
    restore(place, folder, overwrite=overwrite, wait_seconds=wait_seconds)
    return about


class TemporaryBackup(TemporaryFolder):
    """A backup in a temporary folder: ``packed`` yields it as a tar archive, and ``remove`` deletes it.

    The folder lies next to the store if its disk has room, else in the system's temporary folder (``TMPDIR``).
    Arguments and errors are those of ``backup_collection``.
    """

    def __init__(self, name: str, path: str | Path | None = None) -> None:
        place = _place_with_room(name, path or DEFAULT_PATH)
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
        return [each for place in _places(path or DEFAULT_PATH) for each in remove_abandoned(_PREFIX, place)]


def _places(path: str | Path) -> list[Path]:
    return [store_folder(path).resolve(), Path(tempfile.gettempdir())]


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
