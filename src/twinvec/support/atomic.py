"""Write a file as a whole: a reader finds the old content or the new content, also after a crash or a power cut.

The new content goes to a partial file in the same folder, is forced to the disk (fsync) and then renamed. If several
processes may write a file, the caller holds a lock. The next writer replaces the partial file of a killed process.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twinvec.errors import ConfigurationError

PARTIAL = ".partial"
"""Suffix of a partial file."""


DISK_FULL = "the disk is full; make room"
FILE_TOO_LARGE = "a file exceeds the size that the process (ulimit -f) or the disk permits; raise the limit"

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS = ("No space left", "quota exceeded")
_TOO_LARGE_TEXT = "File too large"


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error, or one of its causes, is a full disk or an exhausted quota."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    if any(text in str(error) for text in _FULL_TEXTS):  # for libraries with error types of their own
        return True
    return error.__cause__ is not None and is_disk_full(error.__cause__)


def why_no_room(error: BaseException) -> str:
    """Return ``DISK_FULL`` or ``FILE_TOO_LARGE``, whichever describes an error or one of its causes, or ""."""
    if is_disk_full(error):
        return DISK_FULL
    if (isinstance(error, OSError) and error.errno == errno.EFBIG) or _TOO_LARGE_TEXT in str(error):
        return FILE_TOO_LARGE
    return why_no_room(error.__cause__) if error.__cause__ is not None else ""


@contextmanager
def resumable(path: Path) -> Iterator[None]:
    """In the block, which writes files at ``path``, raise ConfigurationError instead of an OSError for lack of room."""
    try:
        yield
    except OSError as error:
        if not (reason := why_no_room(error)):
            raise
        again = "run the same command again: it continues after the last complete part"
        raise ConfigurationError(f"{path}: {reason}, and {again}") from error


def partial_path(path: Path) -> Path:
    """Return the path of the partial file of ``path``."""
    return path.with_name(path.name + PARTIAL)


def atomic_write(path: Path, content: str | bytes) -> None:
    """Replace the content of a file; a string is written as UTF-8. After an OSError, the old content remains."""
    with replaced(path) as partial:
        partial.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Yield a partial file to write to; it replaces ``path`` when the block ends, or is removed after an error."""
    partial = partial_path(path)
    try:
        yield partial
        put_in_place(partial, path)
    except BaseException:
        if partial.is_file():
            partial.unlink()
        raise


def put_in_place(partial: Path, path: Path) -> None:
    """Force a complete file to the disk and rename it to ``path``, in the same folder."""
    sync_file(partial)
    partial.replace(path)
    sync_folder(path.parent)


def sync_files(folder: Path) -> None:
    """Force every file and every folder below a folder, and the folder itself, to the disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            sync_file(path)
        elif path.is_dir():
            sync_folder(path)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Force a folder's list of names to the disk; do nothing on systems that cannot open a folder."""
    if hasattr(os, "O_DIRECTORY"):
        sync_file(folder)


def sync_file(path: Path) -> None:
    """Force a file, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
