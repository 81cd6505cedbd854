"""The output file of a long job, and the partial file next to it, from which a killed run continues.

The first line of the partial file identifies the job. Each further line holds a finished piece of work: for ``mine`` a
row, and whether its positive was found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from twinvec.errors import ConfigurationError
from twinvec.support.atomic import atomic_write, partial_path, put_in_place, resumable
from twinvec.support.checks import check_free, check_output_file, check_overwrites
from twinvec.support.locks import exclusive_lock

_DIGITS = 16
"""Number of hexadecimal digits of the digest in the name of a file of vectors."""


class JobFile:
    """The partial file of a job, with one finished piece of work on each line.

    Args:
        output: The file that the job writes.
        job: Digest of the inputs and settings of the job.
        other: Words for another job (such as "other pairs"), for the error about its partial file.
        doing: The activity of a run, such as "mining into it", for the error that another process does the same.

    Raises:
        ConfigurationError: the partial file belongs to another job.
    """

    def __init__(self, output: Path, job: str, other: str, doing: str) -> None:
        self.partial, self._new = _beside(output)
        self._output = output
        self._doing = doing
        self._header = line_of({"job": job})
        if _first_line(self.partial).endswith(b"\n") and not self.begun:
            raise ConfigurationError(f"{self.partial}: belongs to {other}; delete it to start over")

    @property
    def begun(self) -> bool:
        """Whether a run of this job has begun the partial file."""
        return _first_line(self.partial) == self._header

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the file against other processes.

        Raise ConfigurationError if another process has locked it, or if the disk fills up inside the block.
        """
        busy = f"{self._output}: another process is {self._doing}"
        with resumable(self._output), exclusive_lock(_lock_path(self._output), busy):
            yield

    def resume(self, window: int = 1) -> int:
        """Truncate the partial file after its complete windows of pieces; return how many pieces they hold.

        The first line that is half written or damaged, for example by a power failure, and all later lines are dropped.
        """
        if not self.partial.is_file():
            self.partial.write_bytes(b"")
        done = kept = size = 0
        with self.partial.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n") or not _is_object(line):
                    break
                size += len(line)
                if number % window == 0:
                    done, kept = number, size
        os.truncate(self.partial, kept)
        if not kept:
            self.partial.write_bytes(self._header)
        return done

    def add(self, pieces: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Add pieces to the partial file; yield each when it is written."""
        with self.partial.open("ab") as file:
            for piece in pieces:
                file.write(line_of(piece))
                file.flush()
                yield piece

    def pieces(self) -> Iterator[dict[str, Any]]:
        """Yield the pieces of the partial file. Call ``resume`` first: it removes a damaged line."""
        with self.partial.open("rb") as lines:
            next(lines)
            yield from map(json.loads, lines)

    @contextmanager
    def final(self, kept: Path | None = None) -> Iterator[BinaryIO]:
        """Yield a file to write; when the block ends, it becomes the output.

        The partial file is then moved to ``kept``, or removed.
        """
        with self._new.open("wb") as file:
            yield file
        put_in_place(self._new, self._output)
        if kept is None:
            self.partial.unlink()
        else:
            self.partial.replace(kept)

    def take(self, kept: Path) -> None:
        """Start the partial file as a copy of ``kept``, an earlier run's partial file, if that belongs to this job."""
        if kept.is_file() and _first_line(kept) == self._header:
            atomic_write(self.partial, kept.read_bytes())


class MinedFile(JobFile):
    """The partial file of mining ``source`` into ``output``; ``job`` has the settings that identify the job.

    The hits of a query may depend on the other queries of its window, by the last bit of a score or by the depth of the
    search. A run therefore resumes after whole windows only.

    Raises ConfigurationError as ``check_output`` does, or if the partial file belongs to another job.
    """

    def __init__(self, source: Path, output: Path, *job: str) -> None:
        check_output(source, output)
        other = "other pairs or options, another model or collection"
        super().__init__(output, file_digest(source, *job), other, "mining into it")

    def write(self, rows: Iterable[tuple[dict[str, Any], bool]]) -> Iterator[dict[str, Any]]:
        """Add rows, each with a flag: its positive was found. Yield each when it is written."""
        return self.add({"found": found, "row": row} for row, found in rows)

    def finish(self, *, without_negatives: bool = True) -> Iterator[tuple[dict[str, Any], bool]]:
        """Write the rows to the output file; yield each row with its flag, after it is written.

        Rows without negatives are yielded too, but written only if ``without_negatives``.
        """
        with self.final() as final:
            for written in self.pieces():
                if without_negatives or written["row"]["negatives"]:
                    final.write(line_of(written["row"]))
                yield written["row"], written["found"]


def check_output(source: Path, output: Path) -> None:
    """Make the folder of ``output``; raise ConfigurationError if that fails or ``output`` is ``source`` or a folder.

    An existing output is refused too, except with a partial file: then a run was killed while it finished. A run that
    was killed after that has left its lock file and its vectors, which are removed.
    """
    check_output_file(output)
    check_overwrites(output, source, *_beside(output))
    if not partial_path(output).exists():
        if output.exists():
            with suppress(ConfigurationError, OSError), exclusive_lock(_lock_path(output), "in use"):
                remove_other_vectors(output)
        check_free(output)


def vectors_path(output: Path, source: Path, space: str) -> Path:
    """Return the path for the vectors of ``source``'s positives in a space, next to ``output``."""
    return output.with_name(f"{output.name}.{file_digest(source, space)[:_DIGITS]}.npy")


def remove_other_vectors(output: Path, kept: Path | None = None) -> None:
    """Remove the vectors that runs with other pairs or another model have left beside ``output``, except ``kept``.

    Files that a process is still writing stay.
    """
    own = re.compile(rf"({re.escape(output.name)}\.[0-9a-f]{{{_DIGITS}}})\.(npy|npy\.partial|lock)")
    found = [match[1] for path in output.parent.iterdir() if (match := own.fullmatch(path.name))]
    for stem in set(found) - {kept.stem if kept is not None else ""}:
        with suppress(ConfigurationError), exclusive_lock(output.with_name(f"{stem}.lock"), "in use"):
            vectors = output.with_name(f"{stem}.npy")
            for path in (vectors, partial_path(vectors)):
                path.unlink(missing_ok=True)


def file_digest(path: Path, *settings: str) -> str:
    """Return a digest of a file's content and of the settings that it is used with."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()


def line_of(value: dict[str, Any]) -> bytes:
    """Return a value as a line of JSON."""
    try:
        return (json.dumps(value, ensure_ascii=False) + "\n").encode()
    except UnicodeEncodeError:  # a lone surrogate in a field that is passed through
        return (json.dumps(value) + "\n").encode()


def _is_object(line: bytes) -> bool:
    """Return whether a line holds a JSON object."""
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _first_line(path: Path) -> bytes:
    """Return the first line of a file, or b"" if the file does not exist."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.readline()


def _lock_path(output: Path) -> Path:
    return output.with_name(output.name + ".lock")


def _beside(output: Path) -> tuple[Path, Path]:
    """Return two paths next to the output: of the partial file, and of the complete file before it is renamed."""
    return partial_path(output), output.with_name(output.name + ".new")
