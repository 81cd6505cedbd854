"""Uploaded files, which lie in a folder for temporary files until their ingest ends. Only this user can read them."""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from starlette.datastructures import UploadFile

from twinvec.errors import StoreUnavailableError
from twinvec.support.locks import TemporaryFolder, place_for_temporary_files, remove_abandoned
from twinvec_serve.errors import RequestError

logger = logging.getLogger(__name__)

_PREFIX = "twinvec-upload-"
_BLOCK = 1 << 20
_BAD_NAME = {errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EILSEQ, errno.EINVAL}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class UploadFolder(TemporaryFolder):
    """A new folder for the uploaded files of one request, which lie in its subfolder ``files``."""

    def __init__(self) -> None:
        super().__init__(_PREFIX)
        self.files = self.path / "files"
        self.files.mkdir()


def remove_leftovers() -> None:
    """Remove the uploaded files that killed servers of this user have left."""
    place = place_for_temporary_files()
    for folder in () if place is None else remove_abandoned(_PREFIX, place):
        logger.warning("removed the uploaded files that a killed server has left: %s", folder)


@contextmanager
def keeping_files() -> Iterator[None]:
    """In the block, which writes uploaded files, raise StoreUnavailableError instead of an OSError."""
    try:
        yield
    except OSError as error:
        raise StoreUnavailableError(
            f"the uploaded files cannot be kept: {error.strerror or error}; see that the server's folder for temporary "
            "files (TMPDIR) can be written and has room, and send the files again"
        ) from error


async def save_files(files: list[UploadFile], folder: Path) -> None:
    """Write uploaded files into a folder; their names may be relative paths.

    Raise RequestError if a name is not a path inside the folder, or two files have the same name.
    """
    for each in files:
        place = folder / _inside(each.filename or "")
        try:
            if place.exists():
                raise RequestError(
                    f"two files are named {each.filename!r}; rename one of them", param="files", code="same_name"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "xb", opener=_private) as file:
                while block := await each.read(_BLOCK):
                    file.write(block)
        except OSError as error:
            if error.errno not in _BAD_NAME:
                raise
            raise RequestError(
                f"the file {each.filename!r} cannot be stored: {error.strerror}", param="files", code="bad_name"
            ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name.replace("\\", "/"))
    usual = path.parts and not path.is_absolute() and ".." not in path.parts and not _CONTROL.search(name)
    if not usual or any(len(part.encode("utf-8", "replace")) > 255 for part in path.parts):
        raise RequestError(
            f"{name[:200]!r} is not a valid file name: expected a relative path without .. or control "
            "characters, each part with at most 255 bytes",
            param="files",
            code="bad_name",
        )
    return path
