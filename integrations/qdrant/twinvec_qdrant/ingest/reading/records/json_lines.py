"""JSON lines -> documents, one for each line, with the number of bytes that were read for it."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from twinvec.errors import DocumentError
from twinvec.retrieval.documents import Document, as_document, parse_record
from twinvec.support.lines import MAX_LINE_BYTES
from twinvec_qdrant.ingest.reading.records.columns import RecordColumns
from twinvec_qdrant.ingest.reading.results import (
    CHANGED,
    Empty,
    Read,
    hiding,
    is_unchanged,
    or_empty,
    printable,
    reason_of,
    unreadable,
)

RECORDS_SUFFIX = ".jsonl"
NEWER_RECORDS_SUFFIX = ".ndjson"
"""Another ending of JSON-lines files; reading versions 1 to 3 read these files as text."""


def read_records(path: Path, name: str, prefix: str, columns: RecordColumns) -> Iterator[Read]:
    """Yield the documents of a file; ``name`` is its name in failures, and ``prefix`` comes before the ids."""
    try:
        with path.open("rb") as file:
            before = os.fstat(file.fileno())
            yield from read_lines(file, name, prefix, columns)
            is_file = stat.S_ISREG(before.st_mode)
            if is_file and _has_changed(before, os.fstat(file.fileno()), file.tell()):
                yield Read(hiding(printable(name), CHANGED, prefix), 0)
    except OSError as error:
        yield Read(unreadable(name, error, prefix), 0)


def _has_changed(before: os.stat_result, after: os.stat_result, read: int) -> bool:
    """Return whether a file has changed since ``before``, apart from added lines.

    ``read`` is the number of bytes that were read.
    """
    return after.st_size < read or (after.st_size <= before.st_size and not is_unchanged(before, after))


def read_lines(file: BinaryIO, name: str, prefix: str, columns: RecordColumns) -> Iterator[Read]:
    """Yield the documents of an open file; see ``read_records`` for the other arguments. ``name`` may be ""."""
    for number, line in enumerate(_lines(file), 1):
        where = f"{printable(name)}:{number}" if name else f"line {number}"
        try:
            if len(line) > MAX_LINE_BYTES:
                raise DocumentError(f"the line has more than {MAX_LINE_BYTES:,} bytes")
            text = (line.removeprefix(codecs.BOM_UTF8) if number == 1 else line).decode()
            if text.strip():
                yield Read(document_of(parse_record(text), number - 1, prefix, columns), len(line))
        except UnicodeDecodeError as error:
            wrong = f"not UTF-8: byte 0x{error.object[error.start]:02x} at {error.start}"
            yield Read(hiding(where, wrong, prefix), len(line))
        except Exception as error:  # a bad line does not stop the others; the failure names the line
            reason = reason_of(error, where).removeprefix(f"document {number - 1}: ")
            yield Read(hiding(where, reason, prefix), len(line))


def document_of(record: dict[str, Any], position: int, prefix: str, columns: RecordColumns) -> Document | Empty:
    """Return the document of a JSON object; raise what ``as_document`` raises."""
    value = as_document(columns.renamed(record), position)
    return or_empty(Document(prefix + value.id, value.text, value.title, value.payload) if prefix else value)


def count_lines(path: Path) -> int:
    """Return the number of lines of a file, with a last line that no line feed ends; 0 for an unreadable file."""
    lines, last = 0, b"\n"
    try:
        with path.open("rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                lines += block.count(b"\n")
                last = block[-1:]
    except OSError:
        return 0
    return lines + (last != b"\n")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; truncate too long lines to one byte above the limit."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        rest = line
        while rest and not rest.endswith(b"\n") and len(line) > MAX_LINE_BYTES:
            rest = file.readline(MAX_LINE_BYTES)
        yield line
