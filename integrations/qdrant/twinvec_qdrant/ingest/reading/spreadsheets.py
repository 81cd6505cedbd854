"""Spreadsheets: a workbook -> Markdown with a heading and a table for each sheet.

openpyxl and xlrd read workbooks of Excel, and ``office.open_documents`` those of LibreOffice.

The tables look like those of markitdown, but this module writes them. markitdown reads workbooks with pandas, which
rounds the numbers of a column that has an empty cell, and writes empty cells and the text "NA" as "NaN".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, time
from io import BytesIO, StringIO
from typing import Any

from twinvec.errors import DocumentError
from twinvec.support.extras import import_extra
from twinvec.text import MAX_TEXT_BYTES
from twinvec_qdrant.ingest.reading.office.compound_files import workbook_stream
from twinvec_qdrant.ingest.reading.office.office_archives import rewritten
from twinvec_qdrant.ingest.reading.office.open_documents import WORKBOOK, workbook_sheets

SPREADSHEETS = frozenset({".xls", ".xlsx", WORKBOOK})
"""Endings of the names of workbooks."""

_MOST_DECIMALS = 6
_NO_CELLS = "|\n|  |"  # the form in which markitdown writes a sheet without cells
_BREAK = re.compile(r" *[\t\r\n][ \t\r\n]*")
_BORDER = 3  # characters that a cell takes besides its text

_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384  # the limits of a sheet in Excel
_MOST_BLANK = 50_000_000  # largest number of blank cells and rows in a workbook; skipping them takes a few seconds

_LARGE = 2**63  # whole numbers from here on stay floats

Row = Mapping[int, Any]
"""The values of a row by their columns, without blank values."""
Sheets = Iterator[tuple[str, Iterable[Sequence[Any]]]]
"""The name of each sheet, and its rows of values; an empty cell is None or ""."""


def read_workbook(data: bytes, suffix: str, version: int) -> str:
    """Return the Markdown of a workbook; ``suffix`` is the ending of its name. The first filled row is the header.

    From reading version 3 on, sheets without cells are left out.

    Raises:
        DocumentError: the workbook has more text than a document may have, or a cell beyond the limits of a sheet.
        MissingExtraError: the library that reads the format is missing.
        Exception: the workbook is damaged; the library raises errors of many types.
    """
    try:
        return _markdown(data, suffix, version)
    except TypeError as error:
        if "showZeroes" not in str(error):
            raise
        return _markdown(rewritten(data, _respelt), suffix, version)


def _respelt(name: str, part: bytes) -> bytes:
    """Return a part of a workbook with "showZeros" where some programs write "showZeroes", which openpyxl refuses."""
    return part.replace(b" showZeroes=", b" showZeros=") if name.startswith("xl/worksheets/") else part


def _markdown(data: bytes, suffix: str, version: int) -> str:
    parts: list[str] = []
    room = _Room()
    sheets = {".xls": _xls_sheets, ".xlsx": _xlsx_sheets, WORKBOOK: workbook_sheets}[suffix]
    for name, rows in sheets(data):
        filled = list(_filled(rows, room))
        if filled or version < 3:
            parts.append(f"## {name}\n{_table(filled, version)}")
    return "\n\n".join(parts)


def _xlsx_sheets(data: bytes) -> Sheets:
    package = import_extra("openpyxl", "documents", "reading .xlsx files", "twinvec-qdrant")
    with closing(package.load_workbook(BytesIO(data), read_only=True, data_only=True, keep_links=False)) as book:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # the size that the file states may be wrong
            yield sheet.title, sheet.iter_rows(values_only=True)


def _xls_sheets(data: bytes) -> Sheets:
    package = import_extra("xlrd", "documents", "reading .xls files", "twinvec-qdrant")
    stream = workbook_stream(data)
    unread = StringIO()  # gets xlrd's warnings, which it prints to standard output by default
    with package.open_workbook(file_contents=stream, on_demand=True, ragged_rows=True, logfile=unread) as book:
        for number, name in enumerate(book.sheet_names()):
            yield name, _xls_rows(book.sheet_by_index(number), book, package)
            book.unload_sheet(number)


def _xls_rows(sheet: Any, book: Any, package: Any) -> Iterator[list[Any]]:
    blank = (package.XL_CELL_EMPTY, package.XL_CELL_BLANK)
    for row in range(sheet.nrows):
        cells = zip(sheet.row_types(row), sheet.row_values(row), strict=True)
        yield [None if kind in blank else _xls_value(kind, value, book, package) for kind, value in cells]


def _xls_value(kind: int, value: Any, book: Any, package: Any) -> Any:
    if kind == package.XL_CELL_DATE:
        when = package.xldate.xldate_as_datetime(value, book.datemode)
        return when.time() if value < 1 else when
    if kind == package.XL_CELL_BOOLEAN:
        return bool(value)
    return package.error_text_from_code.get(value) if kind == package.XL_CELL_ERROR else value


class _Room:
    """The amounts that a workbook may still have: characters of text, and blank cells and rows."""

    def __init__(self) -> None:
        self._text = MAX_TEXT_BYTES
        self._blank = _MOST_BLANK

    def take(self, blank: int, values: Row) -> None:
        """Subtract blank cells and the values of a row; raise ``DocumentError`` if a limit is exceeded."""
        self._blank -= blank
        if self._blank < 0:
            raise DocumentError(
                f"more than {_MOST_BLANK:,} blank cells between filled cells; delete cells far from the others"
            )
        self._text -= _size(values)
        if self._text < 0:
            raise _too_large()


def _filled(rows: Iterable[Sequence[Any]], room: _Room) -> Iterator[Row]:
    """Yield the rows that are not blank; raise ``DocumentError`` at a limit of ``room`` or of a sheet."""
    number = taken = 0
    for number, row in enumerate(rows, 1):
        if not row and number <= _MOST_ROWS:  # skipped at once, because a sheet may have a million empty rows
            continue
        if number > _MOST_ROWS or len(row) > _MOST_COLUMNS:
            limits = f"{_MOST_ROWS:,} rows and {_MOST_COLUMNS:,} columns"
            raise DocumentError(f"damaged: a cell beyond the {limits} of a sheet; get the file again")
        cells = ((place, _value(cell)) for place, cell in enumerate(row) if cell is not None)
        values = {place: value for place, value in cells if value is not None}
        room.take(number - taken + len(row) - len(values), values)
        taken = number
        if values:
            yield values
    room.take(number - taken, {})


def _size(row: Row) -> int:
    return sum(_BORDER + (len(value) if isinstance(value, str) else 1) for value in row.values())


def _too_large() -> DocumentError:
    return DocumentError(f"the workbook has more text than the limit of {MAX_TEXT_BYTES:,} bytes; split it first")


def _value(cell: Any) -> Any:
    """Return a cell's value: None for a blank cell, an integer for a whole number, text in one line."""
    if isinstance(cell, str):
        return _BREAK.sub(" ", cell).strip() or None
    return int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < _LARGE else cell


def _table(rows: Sequence[Row], version: int) -> str:
    """Return a Markdown table of the columns that are not blank."""
    if not rows:
        return _NO_CELLS
    places = sorted(set().union(*rows))
    if len(places) * len(rows) * _BORDER > MAX_TEXT_BYTES:
        raise _too_large()
    if version > 8:
        rows = [dict(zip(rows[0], _without_midnight(rows[0].values()), strict=True)), *rows[1:]]
    columns = [_texts([row.get(place) for row in rows], version) for place in places]
    header, *below = map(_line, zip(*columns, strict=True))
    return "\n".join([header, _line(["---"] * len(places)), *below])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _texts(column: Sequence[Any], version: int) -> list[str]:
    """Return the texts of a column; dates lose a time that is always midnight; numbers get equally many decimals.

    In reading versions 1 to 8, dates keep the time if another cell of the column, such as "open", is not a date.
    """
    header, *cells = column
    filled = [cell for cell in cells if cell is not None]
    if version > 8 or all(isinstance(cell, datetime) for cell in filled):
        cells = _without_midnight(cells)
    texts = list(map(_text, cells))
    if all(isinstance(cell, (int, float)) and not isinstance(cell, bool) for cell in filled):
        texts = _aligned(texts)
    return [_text(header), *texts]


def _without_midnight(cells: Iterable[Any]) -> list[Any]:
    """Return cells with their dates without times if all of these times are midnight."""
    cells = list(cells)
    if any(isinstance(cell, datetime) and cell.time() != time() for cell in cells):
        return cells
    return [cell.date() if isinstance(cell, datetime) else cell for cell in cells]


def _aligned(numbers: Sequence[str]) -> list[str]:
    """Return numbers with equally many decimals, unless a number would need too many."""
    decimals = max((len(number.partition(".")[2]) for number in numbers), default=0)
    if not 0 < decimals <= _MOST_DECIMALS or any("e" in number for number in numbers):
        return list(numbers)
    parts = [number.partition(".") for number in numbers]
    return [whole and f"{whole}.{fraction:0<{decimals}}" for whole, _, fraction in parts]


def _text(value: Any) -> str:
    """Return a value as text; a number has the 15 digits that Excel keeps."""
    if isinstance(value, float):
        return f"{value:.15g}"
    # keeps double spaces, as pandas does
    text = "" if value is None else str(value).replace("  ", "\N{NO-BREAK SPACE}" * 2)
    return text.replace("*", r"\*").replace("_", r"\_")
