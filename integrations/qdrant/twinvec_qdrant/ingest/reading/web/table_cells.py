"""Tables of web pages: a cell that spans several rows is repeated in each of them, within limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

_CELLS = ("td", "th")
_ALL_ROWS = 65_534  # the most rows that a cell spans (HTML standard)
_MOST_COLUMNS = 1000  # the most columns that a cell spans (HTML standard); only in these columns, cells are repeated
_LONGEST_NUMBER = 10  # digits
_MOST_SPANS = 20  # the most cells of a row that are repeated in the next one
_MOST_PADDED = 20  # the most columns between the last cell of a row and a repeated cell
_LONGEST_REPEATED = 200  # characters of a cell that is repeated in each row


class _Span(NamedTuple):
    """A cell that spans several rows: the element's name, its text, and the number of rows after the current one."""

    name: str
    text: str
    rows: int


def with_spans(children: list[Any], page: Any) -> list[Any]:
    """Repeat each cell that spans several rows in all of its rows; ``children`` are the children of the table."""
    spans: dict[int, _Span] = {}
    for row in (child for child in children if child.name == "tr"):
        if spans or any(child.name in _CELLS and child.get("rowspan") for child in row.contents):
            row.contents, spans = _spanned(row, spans, page)
    return children


def _spanned(row: Any, reaching: Mapping[int, _Span], page: Any) -> tuple[list[Any], dict[int, _Span]]:
    """Return the cells of a row, with those of earlier rows that span it, and the cells that span the next row."""
    cells: list[Any] = []
    spans = {place: span._replace(rows=span.rows - 1) for place, span in reaching.items() if span.rows > 1}
    place = last = 0
    for cell in [*(child for child in row.contents if child.name in _CELLS), None]:
        if cell is None:
            last = max((reached for reached in reaching if reached <= place + _MOST_PADDED), default=0)
        while place in reaching or place < last:
            repeated = page.new_tag(reaching[place].name if place in reaching else "td")
            repeated.string = reaching[place].text if place in reaching else ""
            cells.append(repeated)
            place += 1
        if cell is None:
            break
        cells.append(cell)
        width = min(whole_number(cell, "colspan") or 1, _MOST_COLUMNS)
        if place < _MOST_COLUMNS and (rows := whole_number(cell, "rowspan")) != 1:
            text = cell.get_text(" ", strip=True)
            texts = [text if len(text) <= _LONGEST_REPEATED else "", *[""] * (width - 1)][: _MOST_SPANS - len(spans)]
            spans |= {place + column: _Span(cell.name, text, rows - 1 if rows else _ALL_ROWS)
                      for column, text in enumerate(texts)}  # fmt: skip
        place += width
    return cells, spans


def whole_number(element: Any, name: str) -> int:
    """Return an attribute that is a whole number; 1 if it is missing or wrong."""
    text = str(element.get(name) or "")
    return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 1
