"""OpenDocument (ISO/IEC 26300): texts (.odt), slides (.odp) and workbooks (.ods) of LibreOffice and OpenOffice.

lxml parses the archive's part ``content.xml``. The elements of texts and slides are renamed to those of HTML, which
markitdown converts to Markdown. Workbooks become rows of values for ``spreadsheets``. Deleted text of tracked changes,
comments, tables of contents and other indexes are left out. Parentheses enclose a footnote where its mark is.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from datetime import datetime
from io import BytesIO
from itertools import chain, repeat
from typing import Any

from twinvec.errors import DocumentError
from twinvec.support.extras import import_extra

WORKBOOK = ".ods"
TEXTS = {".odp": "presentation", ".odt": "text"}
"""Endings of the names of slides and texts, with the name of the element that holds the content."""

_SPACE = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_OFFICE, _TEXT, _TABLE, _DRAW, _SLIDE, _STYLE, _SVG = (
    _SPACE % name for name in ("office", "text", "table", "drawing", "presentation", "style", "svg-compatible")
)
_LINK = "{http://www.w3.org/1999/xlink}href"
_LIBREOFFICE = "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}"
_READ = (_OFFICE, _TEXT, _TABLE, _DRAW, _SLIDE, _LIBREOFFICE, f"{_SVG}title", f"{_SVG}desc")  # elements with text
_UNREAD = {
    *(f"{_OFFICE}{name}" for name in ("annotation", "binary-data", "event-listeners", "forms")),
    *(f"{_SLIDE}{name}-decl" for name in ("date-time", "footer", "header")),
    *(f"{_TABLE}{name}" for name in ("content-validations", "shapes", "table-column", "tracked-changes")),
    *(f"{_TEXT}{name}" for name in ("bibliography-source", "note-citation", "ruby-text", "script")),
    *(f"{_TEXT}{name}" for name in ("table-of-content", "tracked-changes")),
    *(f"{_TEXT}{name}-index" for name in ("alphabetical", "illustration", "object", "table", "user")),
}
_HEADING, _PARAGRAPH, _LIST, _NOTE, _BREAK = (f"{_TEXT}{name}" for name in ("h", "p", "list", "note", "line-break"))
_LOOK, _NAME = f"{_TEXT}style-name", f"{_STYLE}name"  # the style of a text, and the name of a style
_TITLE = "Title"  # the style of the title of a text
_GRID, _HEADER, _ROW, _CELL, _COVERED = (
    f"{_TABLE}{name}" for name in ("table", "table-header-rows", "table-row", "table-cell", "covered-table-cell")
)
_HEADER_CELL = f"{_TABLE}header-cell"  # of this module: a cell of the first row
_NUMBERED = f"{_TEXT}list-level-style-number"
_HTML = {
    _PARAGRAPH: "p",
    _BREAK: "br",
    f"{_TEXT}list-header": "li",
    f"{_TEXT}list-item": "li",
    _GRID: "table",
    _HEADER: "thead",
    _HEADER_CELL: "th",
    _ROW: "tr",
    _CELL: "td",
    _COVERED: "td",
    **{f"{_TEXT}{name}": "div" for name in ("bibliography", "index-body", "numbered-paragraph", "section")},
}
_MANIFEST = "META-INF/manifest.xml"
_EXTERNAL = ("http:", "https:", "mailto:")
_BLANKS = (f"{_TEXT}s", f"{_TEXT}tab")
_MOST_TIMES = 100  # how often a cell or row of a text appears at most
_MOST_REPEATED = 100_000  # characters and elements of all repeated cells and rows of a text
_MOST_COLUMNS = 16_384 + 1  # one column more than a sheet has; ``spreadsheets`` refuses such a row


def html_of(data: bytes, suffix: str) -> bytes:
    """Return the HTML of a text or of slides; ``suffix`` is the ending of the file's name.

    Raises:
        DocumentError: the file is encrypted, or has another format than its name states.
        MissingExtraError: lxml is missing.
        Exception: the file is damaged.
    """
    etree = _etree(suffix)
    content, *styles = _parts(data, etree, "content.xml", "styles.xml")
    body = _body(content, TEXTS[suffix], suffix)
    looks = list(chain.from_iterable(part.iter(f"{_TEXT}list-style", f"{_STYLE}style") for part in (content, *styles)))
    numbered = {each.get(_NAME) for each in looks if each.find(_NUMBERED) is not None}
    titles = {_TITLE, *(each.get(_NAME) for each in looks if each.get(f"{_STYLE}parent-style-name") == _TITLE)}
    _remove_unread(body, etree)
    _repeat(body)
    for each in list(body.iter(_NOTE, _LIST, _GRID, _PARAGRAPH)):
        if each.tag == _NOTE:
            _set_in_parentheses(each)
        elif each.tag == _LIST:
            _prepare_list(each)
        elif each.tag == _GRID:
            _prepare_table(each)
        elif each.get(_LOOK) in titles:
            each.tag = _HEADING
    for each in list(body.iter()):
        _rename(each, numbered)
    return b"<html><body>%b</body></html>" % etree.tostring(body, method="html", encoding="utf-8")


def workbook_sheets(data: bytes) -> Iterator[tuple[str, Iterator[Sequence[Any]]]]:
    """Yield the name of each sheet of a workbook, and its rows of values; errors as for ``html_of``."""
    etree = _etree(WORKBOOK)
    (content,) = _parts(data, etree, "content.xml")
    body = _body(content, "spreadsheet", WORKBOOK)
    _remove_unread(body, etree)
    for table in body.iterchildren(_GRID):
        yield table.get(f"{_TABLE}name") or "", _rows(table)


def _etree(suffix: str) -> Any:
    return import_extra("lxml.etree", "documents", f"reading {suffix} files", "twinvec-qdrant")


def _parts(data: bytes, etree: Any, *names: str) -> list[Any]:
    """Return the parsed XML of these files of an archive; only the first file must be there."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True)
    with zipfile.ZipFile(BytesIO(data)) as archive:
        present = archive.namelist()
        if _MANIFEST in present and b"encryption-data" in archive.read(_MANIFEST):
            raise DocumentError("encrypted with a password; save it without the password")
        read = [name for name in names if name in present or name == names[0]]
        return [etree.fromstring(archive.read(name), parser) for name in read]


def _body(content: Any, name: str, suffix: str) -> Any:
    body = content.find(f"{_OFFICE}body/{_OFFICE}{name}")
    if body is None:
        raise DocumentError(f"not of the format that its name ({suffix}) says; save it again, or rename it")
    return body


def _remove_unread(body: Any, etree: Any) -> None:
    """Remove the elements that hold no text of the document, and write blanks and line breaks as characters."""
    others = {each.tag for each in body.iter("*") if not each.tag.startswith(_READ)}
    kinds = (etree.Comment, etree.ProcessingInstruction, etree.Entity)
    etree.strip_elements(body, *_UNREAD, *others, *kinds, with_tail=False)
    for each in body.iter(*_BLANKS, _BREAK):
        each.text = "\n" if each.tag == _BREAK else " "


def _repeat(body: Any) -> None:
    """Repeat cells and rows of tables as often as they state, except blank rows and blank cells at a row's end."""
    room = _MOST_REPEATED
    for each in reversed(list(body.iter(_ROW, _CELL, _COVERED))):  # the cells of a row before the row
        times = _number(each.attrib, f"{_TABLE}number-{'rows' if each.tag == _ROW else 'columns'}-repeated")
        if times == 1:
            continue
        text = "".join(each.itertext())
        if text.strip() or (each.tag != _ROW and each.getnext() is not None):
            size = len(text) + sum(1 for _ in each.iter())
            copies = min(times - 1, _MOST_TIMES - 1, room // size)
            room -= copies * size
            for _ in range(copies):
                each.addnext(deepcopy(each))


def _set_in_parentheses(note: Any) -> None:
    for each in note.iter(_PARAGRAPH):
        each.tail = " "
    note.text = f" ({' '.join(''.join(note.itertext()).split())})"
    note[:] = []


def _prepare_list(element: Any) -> None:
    """Give a list the style of the list around it; a list that numbers headings becomes a section."""
    if element.get(_LOOK) is None and (around := next(element.iterancestors(_LIST), None)) is not None:
        element.set(_LOOK, around.get(_LOOK) or "")
    if next(element.iter(_HEADING), None) is not None:
        for each in (element, *element):
            each.tag = f"{_TEXT}section"


def _prepare_table(element: Any) -> None:
    """Empty cells that others cover, and make the first row a header if the table has none."""
    for each in element.iter(_COVERED):
        each[:], each.text = [], None
    row = next(element.iter(_ROW), None)
    if row is not None and next(element.iter(_HEADER), None) is None:
        for each in row.iterchildren(_CELL, _COVERED):
            each.tag = _HEADER_CELL


def _rename(element: Any, numbered: set[str]) -> None:
    """Turn an OpenDocument element into HTML; ``numbered`` are the names of the list styles that number their items."""
    tag, attributes = element.tag, dict(element.attrib)
    element.attrib.clear()
    is_block = tag.startswith((_DRAW, _OFFICE, _SLIDE, _TABLE)) and any(map(str.strip, element.itertext()))
    element.tag = _HTML.get(tag, "div" if is_block else "span")
    if tag == _HEADING:
        element.tag = f"h{min(_number(attributes, f'{_TEXT}outline-level'), 6)}"
    elif tag == _LIST:
        element.tag = "ol" if attributes.get(_LOOK) in numbered else "ul"
    elif tag == f"{_TEXT}a":
        address = attributes.get(_LINK, "")
        element.tag = "a" if address.startswith(_EXTERNAL) else "span"
        element.attrib.update({"href": address} if element.tag == "a" else {})
    elif tag == f"{_DRAW}frame" and attributes.get(f"{_SLIDE}class") == "title":
        element.tag = "h1"
    elif tag == _BREAK:
        element.text = None
    elif tag == f"{_SLIDE}notes" and "".join(element.itertext()).strip():
        heading = element.makeelement("h3")
        heading.text = "Notes:"  # as markitdown writes it for slides of PowerPoint
        element.insert(0, heading)


def _rows(table: Any) -> Iterator[Sequence[Any]]:
    """Yield the rows of a sheet, without blank rows at the end, of which some programs write too many."""
    blank = 0
    for row in table.iter(_ROW):
        cells: list[Any] = []
        for cell in row.iterchildren(_CELL, _COVERED):
            times = min(_number(cell.attrib, f"{_TABLE}number-columns-repeated"), _MOST_COLUMNS - len(cells))
            cells += [_value(cell)] * times
        while cells and cells[-1] in (None, ""):
            cells.pop()
        times = _number(row.attrib, f"{_TABLE}number-rows-repeated")
        if not cells:
            blank += times
            continue
        yield from chain(repeat((), blank), repeat(cells, times))
        blank = 0


def _value(cell: Any) -> Any:
    """Return the value of a cell of a workbook: a number, a truth value, a date, or the shown text; None if blank."""
    if cell.tag == _COVERED:
        return None
    try:
        match cell.get(f"{_OFFICE}value-type"):
            case "boolean":
                return cell.attrib[f"{_OFFICE}boolean-value"] == "true"
            case "date":
                return datetime.fromisoformat(cell.attrib[f"{_OFFICE}date-value"])
            case "currency" | "float" | "percentage":
                return float(cell.attrib[f"{_OFFICE}value"])
    except (KeyError, ValueError):
        pass  # the value is missing or malformed: take the shown text
    return "\n".join("".join(each.itertext()) for each in cell.iterchildren(_PARAGRAPH)) or None


def _number(attributes: Any, name: str) -> int:
    """Return an attribute that is a positive whole number; 1 if it is missing or wrong."""
    text = attributes.get(name) or ""
    return max(int(text), 1) if text.isdecimal() and len(text) < 10 else 1
