"""Read the lines of text files and JSON lines files; every InputError names file and line."""

from __future__ import annotations

import csv
import json
import stat
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from twinvec.errors import InputError
from twinvec.support.checks import shortened
from twinvec.text import MAX_TEXT_BYTES, check_text

_GZIP = b"\x1f\x8b"
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_TABLES = (".csv", ".tsv", ".parquet", ".xlsx")
_OPENED = ("/dev/stdin", "/dev/fd/", "/proc/self/fd/")
"""Beginnings of the paths of files that this process has open: standard input, and a shell's ``<(command)``."""

MAX_LINE_BYTES = 8 * MAX_TEXT_BYTES
"""Largest size of a line; JSON may escape a byte of text as six bytes."""

_limits_lock = threading.Lock()
_limits_before: list[int] = []  # the limit of csv before each block of long_fields that has not ended


def read_lines(path: Path) -> Iterator[str]:
    """Yield a file's lines with their ends; raise InputError if it is unreadable, compressed or not UTF-8."""
    with open_data(path) as file:
        yield from decoded_lines(file, path)


@contextmanager
def open_data(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of data; raise InputError if reading fails, or for a device or a named pipe, which may never end."""
    try:
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or str(path).startswith(_OPENED)):
            raise InputError(f"{path}: is a device or a named pipe; name a file, or /dev/stdin")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise InputError(f"{shortened(str(path))}: cannot be read: {error.strerror}") from error


def limited_lines(file: IO[bytes], path: Path | str) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends; raise InputError for a line longer than ``MAX_LINE_BYTES``."""
    for number, line in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), 1):
        if len(line) > MAX_LINE_BYTES:
            raise InputError(f"{path}:{number}: the line has more than {MAX_LINE_BYTES:,} bytes")
        yield line


def decoded_lines(file: IO[bytes], path: Path | str) -> Iterator[str]:
    """Yield the lines of an open file with their ends; raise InputError if they are compressed or not UTF-8."""
    for number, line in enumerate(limited_lines(file, path), 1):
        if number == 1 and line.startswith(_GZIP):
            raise InputError(f"{path}: compressed by gzip; decompress it first")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}:{number}: not UTF-8: {error.reason} at byte {error.start}") from error


def is_jsonl(path: Path) -> bool:
    """Return whether the ending of a file's name is that of JSON lines, such as .jsonl."""
    return path.suffix.lower() in _JSON_LINES


def is_table_file(path: Path) -> bool:
    """Return whether the ending of a file's name is that of a table, such as .csv."""
    return path.suffix.lower() in _TABLES


def read_jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield "file:line" and object for each line of a JSON lines file; skip blank lines, refuse an empty file."""
    empty = True
    for row in parsed_lines(read_lines(path), path):
        empty = False
        yield row
    if empty:
        raise InputError(f"{path}: the file is empty; expected one JSON object a line")


def parsed_lines(lines: Iterable[str], path: Path | str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield "file:line" and object for each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{path}:{number}", parse_object(line, f"{path}:{number}")


def parse_object(line: str | bytes, place: str) -> dict[str, Any]:
    """Parse a JSON object; for other content or a repeated key, raise an InputError that names ``place``."""
    try:
        value = json.loads(line, object_pairs_hook=partial(_without_repeats, place))
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{place}: expected a JSON object, got {type(value).__name__}")
    return value


def _without_repeats(place: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise InputError(f"{place}: the key {key!r} comes twice in an object; remove one of the two")
        values[key] = value
    return values


def text_field(row: dict[str, Any], name: str, place: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return the string of a row under ``name``; raise InputError if it is missing or not valid."""
    if name not in row:
        keys = f"no {name!r} among the keys {', '.join(map(repr, sorted(row)))}" if row else "the object has no keys"
        raise InputError(f"{place}: {keys}")
    return check_text(row[name], f"{place}: {name!r}", max_bytes)


def read_texts(path: Path, field: str = "text", max_bytes: int = MAX_TEXT_BYTES) -> Iterator[str]:
    """Yield each line of a text file, without its line end, or ``field`` of each object of JSON lines.

    Raise InputError for a table, and, naming file and line, for a text that is not valid.
    """
    if is_table_file(path):
        raise InputError(
            f"{path}: a table; give a file with one text a line (.txt), or with one JSON object a line (.jsonl)"
        )
    if is_jsonl(path):
        return (text_field(row, field, place, max_bytes) for place, row in read_jsonl(path))
    lines = enumerate(read_lines(path), 1)
    return (check_text(line.rstrip("\r\n"), f"{path}:{number}", max_bytes) for number, line in lines)


@contextmanager
def long_fields() -> Iterator[None]:
    """Let ``csv`` read fields as long as a text may be, and restore its limit after the block.

    The limit is that of the process. If several threads are in such blocks, the last one to leave restores the limit.
    """
    with _limits_lock:
        _limits_before.append(csv.field_size_limit(MAX_TEXT_BYTES))
    try:
        yield
    finally:
        with _limits_lock:
            csv.field_size_limit(_limits_before.pop())
