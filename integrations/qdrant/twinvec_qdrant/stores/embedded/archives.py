"""Backups as tar archives: a server sends an archive in pieces, and a client unpacks them as they arrive.

The format is POSIX.1-2001 (pax), without compression. The engine's files have holes on the disk. The archive has blocks
of zeros instead, so that every program can unpack it; ``unpack`` turns them into holes again.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, Self

from twinvec.errors import StoreCorruptError
from twinvec_qdrant.stores.embedded.folder import copy_with_holes

_PIECE = 256 * 1024
_EXTENSIONS = (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME)  # headers that carry a long name or size of the next member
_LONGEST_EXTENSION = 64 * 1024
_BY_BAD_HEADERS = (  # errors other than TarError that tarfile raises because of a header
    ValueError,  # a bad number, or a NUL in a name
    OverflowError,  # a number out of range
    RecursionError,  # many extensions of one member
    NotADirectoryError,  # a file and a folder of the same name
    IsADirectoryError,
    FileExistsError,
)


def packed(folder: Path) -> Iterator[bytes]:
    """Yield an archive of the files below a folder, in non-empty pieces; nobody may change the files meanwhile."""
    size = 0
    for piece in _members(folder):
        size += len(piece)
        yield piece
    end = 2 * tarfile.BLOCKSIZE
    yield bytes(end + -(size + end) % tarfile.RECORDSIZE)  # fills the last record, for readers of whole records


def _members(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*")):
        about = tarfile.TarInfo(path.relative_to(folder).as_posix())
        found = path.stat()
        about.mtime = int(found.st_mtime)
        if path.is_dir():
            about.type, about.mode = tarfile.DIRTYPE, 0o755
            yield about.tobuf()
            continue
        about.size = found.st_size
        yield about.tobuf()
        with open(path, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece
        if rest := about.size % tarfile.BLOCKSIZE:
            yield bytes(tarfile.BLOCKSIZE - rest)


def unpack(archive: Any, folder: Path) -> None:
    """Unpack an archive (an object with ``read``) into a folder.

    Only files and folders inside the folder are accepted: links, devices and files with declared holes are refused.

    Raise ``StoreCorruptError`` if the archive cannot be read. An archive that was cut between two files can be read;
    the checksums of the backup then show which files are missing.
    """
    try:
        with _WithHoles.open(fileobj=archive, mode="r|", bufsize=_PIECE, tarinfo=_Member) as files:
            files.extractall(folder, filter=_of_this_user)
    except (tarfile.TarError, *_BY_BAD_HEADERS) as error:
        raise StoreCorruptError(f"{folder}: the backup cannot be unpacked: {error}") from error


class _Member(tarfile.TarInfo):
    """A member of the archive of a backup; its header is checked before tarfile reads what the header announces."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        found = super().frombuf(buf, encoding, errors)
        is_extension = found.type in _EXTENSIONS and found.size <= _LONGEST_EXTENSION
        if not (is_extension or found.type in (tarfile.REGTYPE, tarfile.DIRTYPE)):
            raise tarfile.ReadError(f"{found.name!r} is neither a file nor a folder")
        return found

    def _refuse_holes(self, *_: Any) -> NoReturn:
        raise tarfile.ReadError("a file has declared holes")

    # tarfile calls these for the holes that a pax header declares, and reads a list of any length
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_holes


class _WithHoles(tarfile.TarFile):
    """Writes blocks of zeros as holes."""

    def makefile(self, tarinfo: tarfile.TarInfo, targetpath: Any) -> None:
        source = self.extractfile(tarinfo)
        assert source is not None
        with source, open(targetpath, "wb") as target:
            copy_with_holes(source, target)


def _of_this_user(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    """Refuse a file outside the folder, as tarfile's filter "data" does; give the member a new file's permissions."""
    kept: dict[str, Any] = {"mode": None}
    return tarfile.data_filter(member, folder).replace(**kept, deep=False)
