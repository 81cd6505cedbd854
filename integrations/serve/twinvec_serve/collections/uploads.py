"""Uploaded files: kept in a folder for temporary files until their ingest has ended, readable for this user only.

A folder has a lock, which its process holds. The next server removes what a killed one has left: folders of this user
whose lock nobody holds.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO

from starlette.datastructures import UploadFile

from twinvec_serve.errors import RequestError

try:
    import fcntl
except ImportError:  # without flock, nobody knows whether a folder is still used
    fcntl = None  # type: ignore[assignment]  # mypy knows one platform at a time

logger = logging.getLogger(__name__)

_PREFIX = "twinvec-upload-"
_LOCK = "lock"
_FILES = "files"
_BLOCK = 1 << 20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class UploadFolder:
    """A new folder for the files of one request; ``path`` is where they belong, until ``remove``."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX))  # of mode 0700
        self.path = self._folder / _FILES
        self.path.mkdir()
        new = self._folder / f"{_LOCK}.new"
        self._held: IO[bytes] = new.open("wb")  # open until ``remove``
        if fcntl is not None:
            fcntl.flock(self._held, fcntl.LOCK_EX)
        new.rename(self._folder / _LOCK)  # a lock that has its name is held

    def remove(self) -> None:
        """Remove the folder and the files in it."""
        _remove(self._folder)
        self._held.close()


def remove_leftovers() -> None:
    """Remove the folders of this user whose processes have died; one without a lock stays: it may be in use."""
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and _is_left(folder):
                _remove(folder)
                logger.warning("removed the uploaded files that a killed server has left: %s", folder)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: without one, the next server would not know that it is left."""
    shutil.rmtree(folder / _FILES, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    handle = os.open(folder / _LOCK, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


async def save_files(files: list[UploadFile], folder: Path) -> None:
    """Write uploaded files below a folder, at the paths that their names give.

    Raise RequestError if a name is no path inside the folder, or two files have the same.
    """
    for each in files:
        place = folder / _inside(each.filename or "")
        try:
            if place.exists():
                raise RequestError(f"two files are named {each.filename!r}", param="files", code="same_name")
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "xb", opener=_private) as file:
                while block := await each.read(_BLOCK):
                    file.write(block)
        except OSError as error:
            raise RequestError(
                f"the file {each.filename!r} cannot be taken: {error.strerror}", param="files", code="bad_name"
            ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    usual = path.parts and not path.is_absolute() and ".." not in path.parts and not _CONTROL.search(name)
    if not usual or any(len(part.encode("utf-8", "replace")) > 255 for part in path.parts):
        raise RequestError(
            f"{name[:200]!r} cannot be the name of a file: expected a relative path without .. and control characters",
            param="files",
            code="bad_name",
        )
    return path
