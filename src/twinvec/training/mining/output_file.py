"""The file that mined rows go to, by way of a partial file next to it whose first line identifies the job.

Each further line holds a row, and whether its positive was found. A killed run continues after the last whole window.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError
from twinvec.support.atomic import partial_path, put_in_place
from twinvec.support.checks import check_output_file, check_overwrites
from twinvec.support.locks import exclusive_lock

_DIGITS = 16
"""Digits of a digest in the names of files with vectors."""


class MinedFile:
    """The rows of one job on their way to ``output``; ``source`` and ``job`` hold everything that decides them.

    Raises ConfigurationError as ``check_output`` does, or if the partial file belongs to another job.
    """

    def __init__(self, source: Path, output: Path, *job: str) -> None:
        check_output(source, output)
        self._output = output
        self._partial, self._new = _beside(output)
        self._header = line_of({"job": file_digest(source, *job)})
        if self._partial.is_file():
            with self._partial.open("rb") as file:
                first = file.readline()
            if first.endswith(b"\n") and first != self._header:
                raise ConfigurationError(
                    f"{self._partial}: belongs to other pairs or options, another model or collection; "
                    "delete it to start over"
                )

    def locked(self) -> AbstractContextManager[None]:
        """Keep other runs from mining into the file; raise ConfigurationError if one is doing so."""
        return exclusive_lock(self._partial.with_suffix(".lock"), f"{self._output}: another process is mining into it")

    def resume(self, window: int) -> int:
        """Truncate the partial file after its complete windows; return how many rows they hold.

        The hits of a query may depend on the window that it is searched in: by the last bit of a score, or by depth.
        """
        if not self._partial.is_file():
            self._partial.write_bytes(b"")
        done = kept = size = 0
        with self._partial.open("rb") as file:
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    break
                size += len(line)
                if number % window == 0:
                    done, kept = number, size
        os.truncate(self._partial, kept)
        if not kept:
            self._partial.write_bytes(self._header)
        return done

    def write(self, rows: Iterable[tuple[dict[str, Any], bool]]) -> Iterator[None]:
        """Add rows, each with whether its positive was found; yield after each."""
        with self._partial.open("ab") as file:
            for row, found in rows:
                file.write(line_of({"found": found, "row": row}))
                file.flush()
                yield

    def finish(self) -> Iterator[tuple[dict[str, Any], bool]]:
        """Write all rows to the output file; yield them as they were written."""
        with self._partial.open("rb") as lines, self._new.open("wb") as final:
            next(lines)
            for line in lines:
                written = json.loads(line)
                final.write(line_of(written["row"]))
                yield written["row"], written["found"]
        put_in_place(self._new, self._output)
        self._partial.unlink()


def check_output(source: Path, output: Path) -> None:
    """Make the folder of ``output``; raise ConfigurationError if that fails or ``output`` is ``source`` or a folder."""
    check_output_file(output)
    check_overwrites(output, source, *_beside(output))


def vectors_path(output: Path, source: Path, space: str) -> Path:
    """Return the file for the vectors of ``source``'s positives in a space, next to ``output``."""
    return output.with_name(f"{output.name}.{file_digest(source, space)[:_DIGITS]}.npy")


def remove_other_vectors(output: Path, kept: Path | None = None) -> None:
    """Remove the vectors that runs with other pairs or another model have left beside ``output``.

    Files that a process is still writing stay, and so does ``kept``.
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


def _beside(output: Path) -> tuple[Path, Path]:
    """Return the files for the rows so far, and for all rows before they become the output."""
    return partial_path(output), output.with_name(output.name + ".new")
