"""The header of a table: find it below lines that a program, such as that of a bank, writes above it.

Such lines are skipped only if they can be told from a header: they have fewer cells than the table, the first row whose
cells are all filled names columns, and below it a column has only figures, such as dates or amounts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from typing import NamedTuple

HEADER_LINES = 50
"""The number of lines among which the header is."""

_FIGURES = re.compile(r"[-+]?[\d.,:/ '-]*\d[\d.,:/ '-]*\s?(?:%|[A-Z]{3}|[€$£¥])?")
_LEAST_COLUMNS = 3  # a table of two columns needs a blank line above its header


class FoundHeader(NamedTuple):
    """The number of lines above a header, the delimiter, and the number of cells of all rows from the header on."""

    above: int
    delimiter: str
    cells: int


def header_below_lines(lines: Sequence[str], delimiters: str) -> FoundHeader | None:
    """Return the header below other lines; None if the first line may be the header."""
    found = [header for each in delimiters if (header := _found(lines, each)) is not None]
    return max(found, key=lambda header: header.cells, default=None)


def _found(lines: Sequence[str], delimiter: str) -> FoundHeader | None:
    rows: list[list[str]] = []
    starts: list[int] = []
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        for row in reader:
            rows.append([cell.strip() for cell in row])
            starts.append(reader.line_num - 1)
    except csv.Error:
        return None
    if len(lines) == HEADER_LINES:  # the last row may go on
        rows = rows[:-1]
    width = max(map(len, rows), default=0)
    place = next((place for place, row in enumerate(rows) if len(row) == width and all(row)), 0)
    if place == 0 or not _is_table(rows[place:], width) or not _is_apart(rows[:place], width):
        return None
    return FoundHeader(starts[place - 1] + 1, delimiter, width * (len(rows) - place))


def _is_apart(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether rows are no part of the table below them, which has ``width`` columns."""
    filled = [sum(map(bool, row)) for row in rows]
    is_narrow = all(count * 2 <= width or len(row) < width for count, row in zip(filled, rows, strict=True))
    return is_narrow and (width >= _LEAST_COLUMNS or (width > 1 and filled[-1] == 0))


def _is_table(rows: Sequence[Sequence[str]], width: int) -> bool:
    """Return whether the first row names columns, and one of the columns has only figures."""
    header, *below = rows
    full = [row for row in below if len(row) == width]
    if not full or any(map(_FIGURES.fullmatch, header)):
        return False
    columns = ([cell for cell in column if cell] for column in zip(*full, strict=True))
    return any(column and all(map(_FIGURES.fullmatch, column)) for column in columns)
