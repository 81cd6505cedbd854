"""The memory of a watch: the documents of each file as last read, so that only changed files are read again.

A file is changed if its size, its times of modification or status change, or its inode differ from those before the
last reading. Everything after the reading happens at each update as without a memory: documents are checked, and
compared with their records, so it does not matter how the collection or its settings have changed meanwhile.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, Self

from twinvec.interrupts import raise_of_handler
from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.reading.results import Empty, Failure, Read, WithResults
from twinvec_qdrant.ingest.reading.root import Reading, Root
from twinvec_qdrant.ingest.reading.walking import FoundFile
from twinvec_qdrant.settings import NEWEST_READING

_LIMIT = 128 * 1024 * 1024
_OVERHEAD = 1024  # estimated bytes of a document besides its text and its payload
_SETTLED_NS = 2_000_000_000  # the coarsest times of file systems (FAT)


class _State(NamedTuple):
    """What shows that a file has changed."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int


class _Kept(NamedTuple):
    """What a file gave: a document, or that it has no text.

    Attributes:
        value: The document, without its text.
        text: The text, compressed.
        size: Number of bytes that were read.
    """

    value: Document | Failure
    text: bytes
    size: int

    @classmethod
    def of(cls, read: Read) -> Self:
        value, size = read
        if isinstance(value, Failure):
            return cls(value, b"", size)
        return cls(replace(value, text=""), zlib.compress(value.text.encode("utf-8", "surrogatepass"), 1), size)

    def read(self) -> Read:
        if isinstance(self.value, Failure):
            return Read(self.value, self.size)
        text = zlib.decompress(self.text).decode("utf-8", "surrogatepass")
        return Read(replace(self.value, text=text), self.size)

    def memory(self) -> int:
        payload = 0 if isinstance(self.value, Failure) else len(str(self.value.payload))
        return _OVERHEAD + sys.getsizeof(self.text) + payload


class _File(NamedTuple):
    """The documents of a file, its state before it was read, the reading version, and the size of the documents."""

    state: _State
    version: int
    kept: list[_Kept]
    memory: int

    def with_read(self, read: Read, limit: int) -> Self | None:
        """Add a document; return None if the file cannot be remembered."""
        if isinstance(read.value, Failure) and not isinstance(read.value, Empty):
            return None
        self.kept.append(each := _Kept.of(read))
        memory = self.memory + each.memory()
        return self._replace(memory=memory) if memory <= limit else None


class FileMemory:
    """Remembers the documents of files, compressed in memory, so that later updates of this process read only changes.

    A file with a failure is not remembered, because the reason may lie outside the file: a lock, a missing library.
    Nor is a file that was changed less than two seconds before it was read: another change in the same moment might
    leave its times as they are. Files beyond ``limit`` are read each time. One root is read at a time.

    Args:
        limit: Largest size of all remembered documents together, in bytes (estimated).
    """

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._left = limit
        self._roots: dict[Root, dict[Path, _File]] = {}
        self._before: dict[Path, _File] = {}  # of the root that is being read
        self._now: dict[Path, _File] = {}

    def begin(self, root: Root) -> None:
        """Begin to read the files of a root; files that this reading does not meet are forgotten."""
        self._before = self._roots.pop(root, {})
        self._left = self._limit - sum(each.memory for files in self._roots.values() for each in files.values())
        self._now = self._roots[root] = {}

    def count(self, found: FoundFile) -> int | None:
        """Return the number of documents of a remembered file, or None if the file has to be read."""
        known = self._before.get(found.path)
        return None if known is None or known.state != _state(found.path) else len(known.kept)

    def reads(self, found: FoundFile, version: int, read: Callable[[FoundFile, int], Iterator[Read]]) -> Iterator[Read]:
        """Yield the documents of a file as ``read`` does, from memory if the file is unchanged."""
        now = time.time_ns()
        state = _state(found.path)
        file = self._before.get(found.path)
        if file is None or (file.state, file.version) != (state, version):
            file = None if state is None else _File(state, version, [], 0)
            for each in read(found, version):
                file = None if file is None else file.with_read(each, self._left)
                yield each
            if file is not None and max(file.state.modified, file.state.changed) + _SETTLED_NS >= now:
                file = None
        else:
            yield from (each.read() for each in file.kept)
        if file is not None and file.memory <= self._left:
            self._left -= file.memory
            self._now[found.path] = file


@dataclass(frozen=True)
class RememberingRoot(Root):
    """A root whose unchanged files are read from a memory.

    Attributes:
        memory: The memory.
    """

    memory: FileMemory = field(default_factory=FileMemory, compare=False, repr=False)

    @classmethod
    def of(cls, root: Root, memory: FileMemory) -> RememberingRoot:
        """Return the root with a memory."""
        return cls(**{each.name: getattr(root, each.name) for each in fields(root)}, memory=memory)

    def read(self, with_results: WithResults | None = None) -> Reading:
        """Return the documents; see ``Root.read``. Files that helpers parse are not remembered."""
        self.memory.begin(self)
        return Root.read(self, with_results)

    def _read_one(self, found: FoundFile, version: int = NEWEST_READING) -> Iterator[Read]:
        return self.memory.reads(found, version, partial(Root._read_one, self))

    def _count(self, found: FoundFile) -> int:
        known = self.memory.count(found)
        return Root._count(self, found) if known is None else known


def _state(path: Path) -> _State | None:
    try:
        found = path.stat()
    except OSError as error:
        raise_of_handler(error)
        return None
    return _State(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
