"""Checksums of an embedded collection's files, written whenever the engine is closed.

    checksums.json        exists if the engine is closed; lists the engine's files, which must match the list
    checksums.open.json   the list of the last close, while a process has the engine open, or after its kill
    records.open.json     the number and a sum of the records, while a process has the engine open, or after its kill;
                          see ``repair.expected_records``

If files have been cut, zeroed or removed, the engine often opens them without an error, and finds only part of the
data. Before the engine opens a collection, twinvec therefore reads the small files, and the large files whose size or
time has changed; ``verify`` reads all files. After a kill, files may differ from the list. A file then counts as
damaged only if the engine cannot have caused the difference: the file is missing, shorter or zeroed, or has changed
although the engine never changes it (``contradicted``).
"""

from __future__ import annotations

import errno
import json
import mmap
import os
import sys
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from twinvec.support.atomic import PARTIAL, atomic_write, sync_file
from twinvec_qdrant.stores.embedded.room import file_sizes, file_system

CHECKED_BYTES = 64 * 2**20
"""Bytes of files that opening reads, the smallest files first."""

_BLOCK = 64 * 1024
_HOLE = bytes(_BLOCK)
_WITH_EXACT_HOLES = ("ext4", "tmpfs", "xfs")
"""File systems that never report data as a hole, not even data that was just written."""
_NAMED = 3  # number of files that an error names
CLOSED = "checksums.json"
OPENED = "checksums.open.json"
EXPECTED = "records.open.json"
HALF_WRITTEN = ".atomicwrite"
"""Start of the name of a folder in which the engine writes a file before it renames the file. A kill leaves the folder,
and the next close removes it."""
_LISTS = (CLOSED, OPENED, EXPECTED, f"{CLOSED}{PARTIAL}")
"""The lists themselves, which have no checksum; a kill may leave the last one, which the next close replaces."""
_CORE = ("version.info", "segment.json", "id_tracker.", "payload_storage/")  # files that a segment always has
_WRITTEN_ONCE = tuple(
    f"/{name}"
    for name in (
        "id_tracker.mappings",
        "matrix.dat",
        "graph.bin",
        "links_compressed.bin",
        "inverted_index.dat",
        "values_to_points.bin",
        "point_to_values.bin",
    )
)
"""Files of an indexed segment that the engine never changes."""
_NEVER_ZEROED = (
    *(".deleted", ".mappings", "/deleted.dat", "/deleted/flags_a.dat"),
    *("/status.dat", "/tracker.dat", "/page_0.dat", ".mmap"),
)
"""Files that the engine never zeroes: until a build, it only adds marks of deleted points, lengths and values."""
_ENGINE = version("qdrant-edge-py")


@dataclass(frozen=True, slots=True)
class FileSum:
    """A file's size, time of change and checksum."""

    size: int
    time: int
    sum: int


class Records(NamedTuple):
    """The number of the records, and the sum of their digests, which changes if any record changes."""

    number: int = 0
    sum: int = 0  # modulo 2 ** 64


@dataclass(frozen=True, slots=True)
class Checksums:
    """The state of the files at a close.

    Attributes:
        files: The engine's files, by their path in its folder.
        counts: Number of stored points of each kind.
        description: The collection's description, as text.
        engine: Version of the engine that has closed the files; "" in a list by an older version of twinvec, which did
            not remove a file from the list before it removed the file itself (``without``).
        records: Number and sum of the records, if they are known.
    """

    files: Mapping[str, FileSum]
    counts: Mapping[str, int] = field(default_factory=dict)
    description: str = ""
    engine: str = _ENGINE
    records: Records | None = None

    @classmethod
    def taken(cls, shard: Path, counts: Mapping[str, int], description: str, known: Checksums | None) -> Checksums:
        """Compute the checksums of the files below ``shard``; for unchanged large files, reuse those in ``known``.

        New and changed files are forced to the disk: a power cut must not leave a list of files that were not written.

        A file is unchanged if its size and time are those in ``known``. Give ``known`` only if a write changes a file's
        time: see ``times_tell``.
        """
        files = {}
        read = 0
        holes = file_system(shard) not in _WITH_EXACT_HOLES
        for name, path, size in _by_size(shard):
            stat = path.stat()
            old = known.files.get(name) if known is not None else None
            is_same = old is not None and (old.size, old.time) == (stat.st_size, stat.st_mtime_ns)
            if not is_same:
                sync_file(path)
            if old is None or not is_same or read + size <= CHECKED_BYTES:
                old = FileSum(stat.st_size, stat.st_mtime_ns, checksum(path, holes=holes))
                read += size
            files[name] = old
        return cls(files, counts, description)

    @classmethod
    def read(cls, path: Path) -> Checksums | None:
        """Read the checksums; return None if the file is missing or damaged."""
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
            files = {name: FileSum(*map(int, each)) for name, each in values["files"].items() if name not in _LISTS}
            records = Records(*map(int, values["records"])) if values.get("records") else None
            return cls(files, values["counts"], values["description"], values.get("engine", ""), records)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """Write the checksums atomically; raise ``OSError`` if that fails."""
        files = {name: [each.size, each.time, each.sum] for name, each in self.files.items()}
        values: dict[str, Any] = {"files": files, "counts": dict(self.counts), "description": self.description}
        atomic_write(path, json.dumps({**values, "engine": self.engine, "records": self.records}))

    def without(self, part: str) -> Checksums:
        """Return the list without the files whose path contains ``part``."""
        return replace(self, files={name: each for name, each in self.files.items() if part not in name})

    def damaged(self, shard: Path, *, thorough: bool = False) -> list[str]:
        """Return the files that differ from the list; without ``thorough``, skip large files with unchanged times."""
        there = _by_size(shard)
        wrong = {name for name, _, _ in there} ^ self.files.keys()
        read = 0
        for name, path, size in there:
            if name in wrong:
                continue
            stat, known = path.stat(), self.files[name]
            read += size
            unread = read > CHECKED_BYTES and stat.st_mtime_ns == known.time and not thorough
            if stat.st_size != known.size or not (unread or checksum(path) == known.sum):
                wrong.add(name)
        return sorted(wrong)

    def unlisted(self, shard: Path) -> list[str]:
        """Return the files below ``shard`` that are missing in this list."""
        return sorted({name for name, _, _ in _by_size(shard)} - self.files.keys())

    def contradicted(self, shard: Path, *, thorough: bool = False) -> list[str]:
        """Return the listed files whose state cannot come from the engine; see ``damaged`` for ``thorough``.

        These files are missing, shorter than listed or zeroed, or have changed although the engine never changes them.
        """
        wrong, read = [], 0
        for name, known in sorted(self.files.items(), key=lambda each: each[1].size):
            if not self._is_lasting(name):
                continue
            path = shard / name
            stat = path.stat() if path.is_file() else None
            if stat is None or (stat.st_size < known.size and not name.endswith(".json")):
                wrong.append(name)
            elif name.endswith(_WRITTEN_ONCE):
                read += stat.st_size
                unread = read > CHECKED_BYTES and stat.st_mtime_ns == known.time and not thorough
                wrong += [] if unread or checksum(path) == known.sum else [name]
            elif name.endswith(_NEVER_ZEROED) and known.sum != _sum_of_zeros(known.size) and _is_zeroed(path):
                wrong.append(name)
        return sorted(wrong)

    def _is_lasting(self, name: str) -> bool:
        """Return whether this version of the engine neither removes the file nor makes it shorter."""
        if not name.startswith("segments/") or "journal" in name or HALF_WRITTEN in name:
            return False
        return self.engine == _ENGINE or any(part in name for part in _CORE)


def checksum(path: Path, *, holes: bool = False) -> int:
    """Return the checksum of a file's content, in which a block of zeros counts the same as a hole.

    On Linux, holes are read with ``holes`` only: some file systems report data that was just written as a hole.
    """
    total = 0
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while block := file.read(_BLOCK) if holes else _next_block(file, size):
            if block != _HOLE:
                place = (file.tell() - len(block)) // _BLOCK
                total = zlib.crc32(block, zlib.crc32(place.to_bytes(8, "big"), total))
    return total


def _sum_of_zeros(size: int) -> int:
    """Return the checksum of a file of zeros."""
    rest = size % _BLOCK
    return zlib.crc32(bytes(rest), zlib.crc32((size // _BLOCK).to_bytes(8, "big"))) if rest else 0


def _is_zeroed(path: Path) -> bool:
    """Return whether a file is not empty and has only zeros; reading stops at the first other byte."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        while block := _next_block(file, size):
            if any(block):
                return False
    return size > 0


def _next_block(file: BinaryIO, size: int) -> bytes:
    """Read the next block that is not a hole; a shorter last block is always read, because its length counts."""
    if sys.platform == "linux":
        place = file.tell()
        try:
            data = file.seek(place, os.SEEK_DATA)
        except OSError as error:
            data = size if error.errno == errno.ENXIO else place
        file.seek(max(place, min(data, size) // _BLOCK * _BLOCK))
    return file.read(_BLOCK)


def times_tell(folder: Path) -> bool:
    """Return whether a write to a mapped file in this folder changes its time, unlike in a file system in memory."""
    path = folder / "checksums.probe"
    try:
        path.write_bytes(bytes(mmap.PAGESIZE))
        os.utime(path, (0, 0))
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[0] += 1  # a read, then a write: some systems notice only the first use of a page
            mapped.flush()
        return path.stat().st_mtime > 0
    except OSError:
        return False
    finally:
        with suppress(OSError):
            path.unlink()


def named_files(names: Sequence[str]) -> str:
    """Return the names of a few files and a verb for an error: "a, b, c and 2 more files are"."""
    more = f" and {len(names) - _NAMED} more files are" if len(names) > _NAMED else " is" if len(names) == 1 else " are"
    return ", ".join(names[:_NAMED]) + more


def _by_size(shard: Path) -> list[tuple[str, Path, int]]:
    """Return name, path and occupied bytes of every file, the smallest first."""
    there = [(name, shard / name, occupied) for name, _, occupied in file_sizes(shard)]
    return sorted((each for each in there if each[1].name not in _LISTS), key=lambda each: (each[2], each[0]))
