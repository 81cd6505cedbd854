"""Backups of an embedded collection: a folder with a copy of its files at one moment, and a file about the copy.

    <backup>/backup.json        name of the collection, when it was copied, and how many points of each kind it holds
    <backup>/collection.json    the description
    <backup>/shard/             the engine's files, with their checksums

The engine is closed while its files are copied, and no other process can open it. A backup is copied under another name
and renamed when it is complete; a restored collection is copied next to the old one, and then put in its place. While a
backup is replaced, two folders are next to it:

    .<backup>.twinvec-new/      the new backup, incomplete
    .<backup>.twinvec-replaced/ the old backup; if a kill has left no <backup>, this folder becomes <backup> again

While a backup is written, the file ``.<backup>.twinvec-lock`` next to it keeps other processes from writing there. If a
kill leaves these folders or this file, they are removed when the backup is next written or read.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError, StoreBusyError, StoreCorruptError, StoreUnavailableError
from twinvec.support.atomic import PARTIAL, sync_file, sync_files
from twinvec.support.checks import integer, mapping, string
from twinvec.support.locks import exclusive_lock
from twinvec_qdrant.report import Backup
from twinvec_qdrant.settings import check_fields
from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend, open_backends, opening_of
from twinvec_qdrant.stores.embedded.checksums import CLOSED, Checksums, named_files
from twinvec_qdrant.stores.embedded.folder import DESCRIPTION, CollectionFolder, copied_tree, os_errors, parsed
from twinvec_qdrant.stores.embedded.turns import Turns

_ABOUT = "backup.json"
_SHARD = "shard"
_FORMAT = 1


def back_up(backend: EmbeddedBackend, name: str, target: Path, *, overwrite: bool) -> Backup:
    """Copy the collection to the folder ``target``; an older backup there stays until the new one is complete."""
    check_target(target, Path(backend.location).parent, overwrite=overwrite)
    with new_backup(target) as partial:
        with backend.at_rest() as folder:
            known = Checksums.read(folder.shard / CLOSED)
            copied_tree(folder.shard, partial / folder.shard.name)
            shutil.copyfile(folder.path / DESCRIPTION, partial / DESCRIPTION)
        about = Backup(name, datetime.now(UTC).isoformat(timespec="seconds"), known.counts if known else {})
        (partial / _ABOUT).write_text(json.dumps({"format": _FORMAT, **asdict(about)}, indent=1), encoding="utf-8")
    return about


def check_target(target: Path, store: Path, *, overwrite: bool) -> None:
    """Raise ``ConfigurationError`` if the folder ``target`` cannot become a backup of a collection of the store."""
    _settle(target)
    _check_replaced(target, overwrite=overwrite)
    _check_place(store, target.resolve())


@contextmanager
def new_backup(target: Path) -> Iterator[Path]:
    """Yield an empty folder to fill; at the end of the block, its files are checked, and it becomes ``target``.

    An error removes the new folder, and an older backup stays.

    Raises:
        ConfigurationError: another process is writing this backup.
        StoreCorruptError: the files are not as written.
        StoreUnavailableError: the folder cannot be written.
    """
    partial = _beside(target, "new")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _writing(target):
            try:
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                yield partial
                _check_files(partial)
                sync_files(partial)
                _put_in_place(partial, target)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise StoreUnavailableError(f"{target}: the backup cannot be written: {error.strerror or error}") from error


def _writing(target: Path) -> AbstractContextManager[None]:
    """Return a context that keeps other processes from writing this backup.

    Entering the context raises ``ConfigurationError`` if another process is writing the backup.
    """
    busy = f"{target}: another process is writing this backup; try again when it has ended"
    return exclusive_lock(_beside(target, "lock"), busy)


def _put_in_place(partial: Path, target: Path) -> None:
    replaced = _beside(target, "replaced")
    shutil.rmtree(replaced, ignore_errors=True)
    if target.exists():
        target.rename(replaced)
    partial.rename(target)
    with suppress(OSError):  # some systems cannot open a folder
        sync_file(target.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def read_backup(source: Path) -> Backup:
    """Return the content of a backup's ``backup.json``; raise ``ConfigurationError`` if the folder is not a backup."""
    _settle(source)
    try:
        return _parsed_about(parsed(source / _ABOUT))
    except (FileNotFoundError, NotADirectoryError):
        if not source.exists():
            raise ConfigurationError(f"no such folder: {source}; name the folder that a backup was made in") from None
        held = f"it has no {_ABOUT}" if source.is_dir() else "it is a file, and a backup is a folder"
        raise ConfigurationError(f"{source}: not a backup: {held}") from None
    except (OSError, ValueError) as error:
        raise StoreCorruptError(f"{source / _ABOUT}: damaged backup: {error}; use another backup") from error


def _parsed_about(values: dict[str, Any]) -> Backup:
    """Return the content of a ``backup.json``; raise ``ValueError`` if a field is missing, unknown or not valid."""
    if "format" in values and integer(values["format"], "format") != _FORMAT:
        raise ValueError("made by a later version of twinvec")
    names = ("format", *(each.name for each in fields(Backup)))
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{missing[0]} is missing")
    del values["format"]
    check_fields(Backup, values, "a backup")
    for name in ("collection", "time"):
        string(values[name], name)
    datetime.fromisoformat(values["time"])
    for kind, number in mapping(values["points"], "points").items():
        integer(number, f"points: {kind!r}", least=0)
    return Backup(**values)


def restore(
    source: Path, folder: CollectionFolder, *, overwrite: bool, wait_seconds: float, move: bool = False
) -> None:
    """Replace the collection by the backup in ``source``; an existing collection stays until everything is copied.

    With ``move``, the files of the backup are not copied but moved; they must be on the collection's disk.
    """
    _check_files(source)
    with opening_of(folder.path):
        if folder.path in open_backends:
            raise StoreBusyError(f"{folder.path}: open in this process; close it before it is restored")
        with Turns(folder.path).alone(wait_seconds) as was_given:
            try:
                with os_errors(folder.path, "restored"):
                    folder.settle(was_given=was_given)
                    if folder.exists() and not overwrite:
                        raise ConfigurationError(
                            f"{folder.path}: the collection exists; restore it under another name (--collection), or "
                            "let the backup replace it (--overwrite, overwrite=True)"
                        )
                    if move:
                        sync_files(source)
                        source.rename(folder.restored)
                    else:
                        _copy_in(source, folder)
                    folder.put_restored_in_place()
            finally:
                if not folder.exists():
                    shutil.rmtree(folder.path, ignore_errors=True)


def _copy_in(source: Path, folder: CollectionFolder) -> None:
    partial = folder.path / f"{folder.restored.name}{PARTIAL}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    try:
        copied_tree(source / folder.shard.name, partial / folder.shard.name)
        shutil.copyfile(source / DESCRIPTION, partial / DESCRIPTION)
        sync_files(partial)
        partial.rename(folder.restored)
    finally:
        shutil.rmtree(partial, ignore_errors=True)  # if the disk is full, the collection needs the room


def _check_replaced(target: Path, *, overwrite: bool) -> None:
    if not target.exists():
        return
    if not overwrite:
        raise ConfigurationError(f"{target}: exists; name another folder, or let the backup replace it (--overwrite)")
    read_backup(target)  # raises for a folder that is not a backup
    if (other := _first_other(target)) is not None:
        raise ConfigurationError(
            f"{target}: {other} is not part of the backup and would be lost; move it away, or name another folder"
        )


def _first_other(target: Path) -> str | None:
    """Return the first path in a backup's folder that is not part of the backup, or None."""
    others = sorted(each.name for each in target.iterdir() if each.name not in (_ABOUT, DESCRIPTION, _SHARD))
    if others:
        return others[0]
    known = Checksums.read(target / _SHARD / CLOSED)
    if known is None:
        raise StoreCorruptError(
            f"{target / _SHARD / CLOSED}: the list of the backup's files is missing or damaged; remove the backup, or "
            "name another folder"
        )
    unlisted = known.unlisted(target / _SHARD)
    return f"{_SHARD}/{unlisted[0]}" if unlisted else None


def _beside(target: Path, suffix: str) -> Path:
    """Return the path next to the backup ``target`` that the docstring of this module names for the suffix."""
    return target.with_name(f".{target.name}.twinvec-{suffix}")


def _settle(target: Path) -> None:
    """Clear up after a kill: if ``target`` is missing, rename the old backup back; remove everything else."""
    partial, replaced, lock = (_beside(target, suffix) for suffix in ("new", "replaced", "lock"))
    with os_errors(target, "read"):
        if not any(each.exists() for each in (partial, replaced, lock)):
            return
    with suppress(OSError, ConfigurationError), _writing(target):  # another process may be replacing the backup
        if not target.exists() and replaced.is_dir():
            replaced.rename(target)
        for each in (partial, replaced):
            shutil.rmtree(each, ignore_errors=True)


def _check_place(store: Path, target: Path) -> None:
    """Raise ``ConfigurationError`` if ``target`` is in the store's folder and could be part of a collection.

    A folder whose name begins with a dot is never a collection.
    """
    if store in target.parents and not target.relative_to(store).parts[0].startswith("."):
        raise ConfigurationError(
            f"{target}: is in the folder of the store, where it would count as a collection or be removed with one; "
            "name a folder outside the store"
        )


def _check_files(backup: Path) -> None:
    known = Checksums.read(backup / _SHARD / CLOSED)
    damaged = [CLOSED] if known is None else known.damaged(backup / _SHARD, thorough=True)
    if not damaged and known is not None:
        damaged = _contradicting(backup, known)
    if damaged:
        raise StoreCorruptError(
            f"{backup}: {named_files(damaged)} missing or changed; use another backup, or make a new one"
        )


def _contradicting(backup: Path, known: Checksums) -> list[str]:
    """Return which of ``collection.json`` and ``backup.json`` contradict the checksums in ``shard``."""
    try:
        is_same = (backup / DESCRIPTION).read_text(encoding="utf-8") == known.description
    except (OSError, UnicodeDecodeError):
        is_same = False
    about = [] if read_backup(backup).points == known.counts else [_ABOUT]
    return about if is_same else [DESCRIPTION, *about]
