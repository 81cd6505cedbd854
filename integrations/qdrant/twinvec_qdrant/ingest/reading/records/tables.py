"""Tables: a CSV or TSV file -> documents, one for each row below the header.

The file is read twice: first for its encoding, its delimiter and the columns that hold only numbers, then for its rows.
All rows that do not fit the header are one failure. Excel can write a line "sep=;" above the header, which states the
delimiter. From reading version 9 on, other lines above the header are skipped (``table_header``).

Cells may be quoted. In a TSV file, a quotation mark can also be part of a text, as the format has no quoting of its own
(text/tab-separated-values). So if such a file is malformed with quoting, it is read without.
"""

from __future__ import annotations

import csv
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TextIO

from twinvec.errors import DocumentError
from twinvec.interrupts import raise_of_handler
from twinvec.retrieval.documents import Document, as_document
from twinvec.support.lines import long_fields
from twinvec_qdrant.ingest.reading.decoding import Encoding, find_encoding
from twinvec_qdrant.ingest.reading.records.columns import RecordColumns
from twinvec_qdrant.ingest.reading.records.table_header import HEADER_LINES, header_below_lines
from twinvec_qdrant.ingest.reading.results import (
    CHANGED,
    Failure,
    Read,
    hiding,
    is_unchanged,
    or_empty,
    printable,
    reason_of,
    unreadable,
)
from twinvec_qdrant.report import NAMED
from twinvec_qdrant.settings import NEWEST_READING

TABLE_SUFFIXES = frozenset({".csv", ".tsv"})

Quoting = Literal[0, 3]  # csv.QUOTE_MINIMAL or csv.QUOTE_NONE

_BLOCK = 1 << 20
_SAMPLE_LINES = 20
_DELIMITERS = ",;\t|"
_STATED = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # the line of Excel; since reading version 6
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,15})?")  # text that stays the same if it is stored as a number


@dataclass(frozen=True, slots=True)
class _Layout:
    """The structure of a table; a column is named by its index in the header."""

    encoding: Encoding
    above: int  # lines above the header
    delimiter: str
    quoting: Quoting
    header: tuple[str, ...]  # all names are different
    id: int | None  # None if rows are numbered
    title: int | None
    text: tuple[int, ...]  # if empty, the text has "column: value" for every column
    numeric: frozenset[int]  # the columns that hold only numbers


class _MisfitError(DocumentError):
    """A row does not fit the header."""


@dataclass(slots=True)
class _Misfits:
    """The rows of a table that do not fit its header."""

    count: int = 0
    size: int = 0  # bytes of the rows
    lines: list[int] = field(default_factory=list)  # of the first rows
    reason: str = ""  # why the first row does not fit

    def add(self, line: int, error: _MisfitError, size: int) -> None:
        self.reason = self.reason or str(error)
        self.count += 1
        self.size += size
        if len(self.lines) < NAMED:
            self.lines.append(line)

    def failures(self, name: str, prefix: str) -> Iterator[Read]:
        """Yield the failure of all these rows, if there are any."""
        source = printable(name)
        if self.count == 1:
            yield Read(hiding(f"{source}:{self.lines[0]}", self.reason, prefix), self.size)
        elif self.count:
            lines = ", ".join(map(str, self.lines)) + (", ..." if self.count > NAMED else "")
            wrong = f"{self.count:,} rows do not fit the header, in lines {lines}; the first: {self.reason}"
            reason = f"{wrong}; delete lines above the header, if there are any"
            yield Read(hiding(source, reason, prefix), self.size)


def read_table(
    path: Path, name: str, prefix: str, columns: RecordColumns, version: int = NEWEST_READING
) -> Iterator[Read]:
    """Yield the documents of a table; ``name`` is its name in failures, and ``prefix`` comes before the ids."""
    try:
        before = path.stat()
        with long_fields():
            layout, count = _layout(path, columns, version)
        size, misfits = before.st_size // max(count, 1), _Misfits()
        for line, number, row in _rows(path, layout):
            try:
                yield Read(_read_row(row, number, layout, (name, line), prefix), size)
            except _MisfitError as error:
                misfits.add(line, error, size)
        if _has_changed(path, before):
            raise DocumentError(CHANGED)
        yield from misfits.failures(name, prefix)
    except OSError as error:
        yield Read(unreadable(name, error, prefix), 0)
    except Exception as error:  # the file may have changed since its layout was read
        raise_of_handler(error)
        reason = str(error) if isinstance(error, (csv.Error, ValueError)) else reason_of(error, printable(name))
        yield Read(hiding(printable(name), CHANGED if _has_changed(path, before) else reason, prefix), 0)


def _has_changed(path: Path, before: os.stat_result) -> bool:
    try:
        return not is_unchanged(before, path.stat())
    except OSError:
        return True


def _layout(path: Path, columns: RecordColumns, version: int) -> tuple[_Layout, int]:
    encoding = find_encoding(lambda: _blocks(path), version)
    with path.open(encoding=encoding.name, errors=encoding.errors, newline="") as file:
        is_tsv = path.suffix.lower() == ".tsv"
        sample = list(islice(file, HEADER_LINES))
        above, delimiter = _place_of_header(sample, version, is_tsv=is_tsv)
        quoting: Quoting = csv.QUOTE_MINIMAL
        try:
            header, numeric, count = _surveyed(file, above, delimiter, quoting, version)
        except DocumentError:
            if not is_tsv:
                raise
            quoting = csv.QUOTE_NONE
            header, numeric, count = _surveyed(file, above, delimiter, quoting, version)
    return _Layout(encoding, above, delimiter, quoting, header, *_places(header, columns), numeric), count


def _place_of_header(lines: Sequence[str], version: int, *, is_tsv: bool) -> tuple[int, str]:
    """Return the number of lines above the header, and the delimiter."""
    stated = _STATED.fullmatch(lines[0]) if lines and version >= 6 and not is_tsv else None
    above, delimiters = (0, _DELIMITERS) if stated is None else (1, stated[1])
    if is_tsv:
        delimiters = "\t"
    if version > 8 and (found := header_below_lines(lines[above:], delimiters)):
        return above + found.above, found.delimiter
    return above, _delimiter(lines[:_SAMPLE_LINES]) if len(delimiters) > 1 else delimiters


def _surveyed(
    file: TextIO, above: int, delimiter: str, quoting: Quoting, version: int
) -> tuple[tuple[str, ...], frozenset[int], int]:
    """Return the header, the columns that hold only numbers, and the number of rows."""
    rows = _well_formed(_reader(file, above, delimiter, quoting), above)
    header = _header(next(rows, []), version)
    return header, *_numeric(rows, len(header))


def _reader(file: TextIO, above: int, delimiter: str, quoting: Quoting) -> Any:
    """Return a reader of the header and the rows; its ``line_num`` does not count the lines ``above``."""
    file.seek(0)
    for _ in range(above):
        file.readline()
    return csv.reader(file, delimiter=delimiter, quoting=quoting, strict=True)


def _well_formed(rows: Any, above: int) -> Iterator[list[str]]:
    """Yield the rows of a reader; a ``DocumentError`` names the lines of the row that cannot be read."""
    first = above + 1
    try:
        for row in rows:
            yield row
            first = above + rows.line_num + 1
    except csv.Error as error:
        last = above + rows.line_num
        where = f"line {first}" if last <= first else f"lines {first:,} to {last:,}"
        raise DocumentError(f"not a table: {where}: {error}") from error


def _numeric(rows: Iterable[Sequence[str]], width: int) -> tuple[frozenset[int], int]:
    """Return the columns that hold only numbers and perhaps empty cells, and the number of rows."""
    numeric, filled, count = set(range(width)), set(), 0
    for row in rows:
        count += 1
        for place, cell in enumerate(row):
            if place in numeric and cell.strip():
                filled.add(place)
                if not _NUMBER.fullmatch(cell):
                    numeric.discard(place)
    return frozenset(numeric & filled), count


def _blocks(path: Path) -> Iterator[bytes]:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe can be read only once
        raise DocumentError("not a regular file")
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_BLOCK), b"")


def _delimiter(lines: Sequence[str]) -> str:
    """Return the delimiter that gives most of the first rows as many cells as the header."""
    best, delimiter = (0, 0), ","
    for each in _DELIMITERS:
        widths = _widths(lines, each)
        if widths and widths[0] > 1 and (fit := (widths.count(widths[0]), widths[0])) > best:
            best, delimiter = fit, each
    return delimiter


def _widths(lines: Sequence[str], delimiter: str) -> list[int]:
    """Return the number of cells of each row; empty if a cell is too long."""
    try:
        return [len(row) for row in csv.reader(lines, delimiter=delimiter)]
    except csv.Error:
        return []


def _header(cells: Sequence[str], version: int = NEWEST_READING) -> tuple[str, ...]:
    """Return the names of the columns; a column without a name is called by its number.

    From reading version 9 on, names that are repeated are numbered, as "currency" and "currency 2".
    """
    names = tuple(cell.strip() or f"column {place}" for place, cell in enumerate(cells, 1))
    is_part = {"id", "_id", "text", "title"}.intersection
    if version > 8 and not is_part(name.casefold() for name in _repeated(names)):
        names = tuple(_numbered(names))
    if repeated := _repeated(names):
        raise DocumentError(f"the header names the column {repeated[0]!r} more than once")
    return names


def _numbered(names: Iterable[str]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for name in names:
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} {seen[name]}"


def _repeated(names: Sequence[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _places(header: Sequence[str], columns: RecordColumns) -> tuple[int | None, int | None, tuple[int, ...]]:
    """Return the columns of the id, the title and the text; raise ``DocumentError`` if a given column is missing."""
    by_name = {name.casefold(): place for place, name in reversed(list(enumerate(header)))}

    def given(name: str) -> int:
        if name in header:
            return header.index(name)
        if name.casefold() not in by_name:
            raise DocumentError(f"the table has no column {name!r}; it has {', '.join(map(repr, header))}")
        return by_name[name.casefold()]

    identity = by_name.get("id", by_name.get("_id")) if columns.id is None else given(columns.id)
    title = by_name.get("title") if columns.title is None else given(columns.title)
    texts = tuple(map(given, columns.text)) or tuple(by_name[name] for name in ("text",) if name in by_name)
    return identity, title, texts


def _rows(path: Path, layout: _Layout) -> Iterator[tuple[int, int, list[str]]]:
    """Yield the rows that are not blank, each with its first line and its number; the row below the header is 1."""
    with path.open(encoding=layout.encoding.name, errors=layout.encoding.errors, newline="") as file:
        rows = _reader(file, layout.above, layout.delimiter, layout.quoting)
        next(rows, None)
        line = layout.above + rows.line_num + 1
        for number, row in enumerate(iter(partial(_next, rows), None), 1):
            if any(cell.strip() for cell in row):
                yield line, number, row
            line = layout.above + rows.line_num + 1


def _next(rows: Iterator[list[str]]) -> list[str] | None:
    with long_fields():  # for each row, since the caller may read other tables between two rows
        return next(rows, None)


def _read_row(row: list[str], number: int, layout: _Layout, where: tuple[str, int], prefix: str) -> Document | Failure:
    name, line = where
    try:
        return or_empty(as_document(_document(row, number, layout, prefix, f"{name}/"), number))
    except _MisfitError:
        raise
    except Exception as error:  # a bad row does not stop the others
        source = f"{printable(name)}:{line}"
        return hiding(source, reason_of(error, source), prefix)


def _document(row: list[str], number: int, layout: _Layout, prefix: str, numbered: str) -> Document:
    """Return the document of a row; ``prefix`` comes before its id, and ``numbered`` before its number."""
    if len(row) > (columns := len(layout.header)):
        named = "1 column" if columns == 1 else f"{columns} columns"
        raise _MisfitError(f"the row has {len(row)} cells, but the header names {named}")
    cells = {place: cell for place, cell in enumerate(row) if cell.strip()}
    if layout.id is not None and layout.id not in cells:
        raise _MisfitError(f"no value in the column {layout.header[layout.id]!r}, which holds the id")
    identity = f"{prefix}{cells[layout.id]}" if layout.id is not None else f"{numbered}{number}"
    title = cells.get(layout.title, "") if layout.title is not None else ""
    parts = {layout.id, layout.title, *layout.text}
    others = {place: cell for place, cell in cells.items() if place not in parts}
    texts = [cells[place] for place in layout.text if place in cells]
    described = "" if layout.text else "\n".join(f"{layout.header[place]}: {cell}" for place, cell in others.items())
    payload = {layout.header[place]: _value(cell, place, layout) for place, cell in others.items()}
    return Document(identity, "\n\n".join(texts) or described, title, payload)


def _value(cell: str, place: int, layout: _Layout) -> str | int | float:
    if place not in layout.numeric:
        return cell
    return float(cell) if "." in cell else int(cell)
