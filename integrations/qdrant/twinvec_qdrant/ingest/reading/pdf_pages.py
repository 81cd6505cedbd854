"""PDF: the text of each page, by PDFium (pypdfium2, which comes with the extra ``documents``).

PDFium gives the lines in reading order, with spaces between words as a reader sees them. Hyphens at line ends are
removed, and so are page headers and footers: lines at the top or bottom of a page that an earlier page also has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from threading import Lock
from typing import Any, NamedTuple

from twinvec.errors import DocumentError
from twinvec.support.extras import import_extra

_MARK = b"%PDF-"
_MARK_WITHIN = 1024  # first bytes that may hold the mark, as readers of PDF allow
_REPEATED = 3  # most lines of a header, and of a footer, that pages repeat
_PROSE = 40  # characters; a line of prose that continues in the next line has at least about as many
_PAGES_BACK = 2  # two, because left and right pages have different headers

_HYPHEN = "\x02"  # PDFium gives it in place of a hyphen at a line end
# a match starts at the start of a word, so that the time is linear in the length of a word
_BROKEN = re.compile(rf"(?<![^\W\d_])([^\W\d_]++){_HYPHEN}([^\W\d_]+)")
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[^\W\d_]+")
_LEADERS = re.compile(r"(?: ?\.){5,} ?")  # rows of dots in a table of contents
_CONTROL = re.compile(r"[\x00\x01\x03-\x09\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")

_pdfium = Lock()  # PDFium serves one thread at a time


class _Page(NamedTuple):
    """The lines of a page, and the page numbers that it may show: its label, and its number in the file."""

    lines: list[str]
    numbers: tuple[str, str]


def read_pdf(data: bytes) -> tuple[str, tuple[int, ...]]:
    """Return the text of a PDF, and the offset at which each page starts in this text.

    An empty line separates two pages. A page without text has the offset of the next page.

    Raises:
        DocumentError: the file is not a PDF, or is damaged or encrypted.
        MissingExtraError: pypdfium2 is missing.
    """
    read = page_texts(data)
    if not read:
        raise damaged()
    numbered = [_page(text, label, str(row)) for row, (text, label) in enumerate(read, 1)]
    pages = ["\n".join(_flowing(lines)) for lines in _without_repeated(numbered)]
    compounds = {word.lower() for page in pages for word in _COMPOUND.findall(page)}
    text, starts = "", []
    for page in pages:
        mended = _BROKEN.sub(lambda word: _joined(word[1], word[2], compounds), page).replace(_HYPHEN, "-").strip()
        starts.append(len(text) + 2 if text else 0)
        text += f"\n\n{mended}" if text and mended else mended
    return text, tuple(min(start, len(text)) for start in starts)


def page_texts(data: bytes) -> list[tuple[str, str]]:
    """Return the text of each page as PDFium gives it, and the page's label; no pages if PDFium cannot read the file.

    Raises:
        DocumentError: the file is not a PDF, or is encrypted.
        MissingExtraError: pypdfium2 is missing.
    """
    if _MARK not in data[:_MARK_WITHIN]:
        raise DocumentError("not a PDF, although its name ends in .pdf")
    pdfium = import_extra("pypdfium2", "documents", "reading .pdf files", "twinvec-qdrant")
    try:
        with _pdfium, closing(pdfium.PdfDocument(data)) as document:
            return [_text_and_label(document, row) for row in range(len(document))]
    except pdfium.PdfiumError as error:
        if error.err_code == pdfium.raw.FPDF_ERR_PASSWORD:
            raise DocumentError("encrypted with a password; save it without the password") from error
        return []


def damaged() -> DocumentError:
    """Return the error of a PDF in which no page can be read."""
    return DocumentError("damaged: no page of the PDF can be read; get the file again")


def _text_and_label(document: Any, row: int) -> tuple[str, str]:
    with closing(document[row]) as page, closing(page.get_textpage()) as words:
        return str(words.get_text_bounded()), str(document.get_page_label(row) or "")


def _page(text: str, label: str, number: str) -> _Page:
    lines = [line.strip(" ") for line in _LEADERS.sub(" ", _CONTROL.sub(" ", text)).splitlines()]
    return _Page(list(filter(None, lines)), (label or number, number))


def _without_repeated(pages: Sequence[_Page]) -> list[list[str]]:
    """Return the lines of each page, without headers and footers that one of the pages before also has."""
    heads = [[_without_number(line, page) for line in page.lines[:_REPEATED]] for page in pages]
    feet = [[_without_number(line, page) for line in page.lines[: -_REPEATED - 1 : -1]] for page in pages]
    found = []
    for row, page in enumerate(pages):
        first, last = _repeated(heads, row), _repeated(feet, row)
        found.append(page.lines[first : max(len(page.lines) - last, first)])
    return found


def _repeated(ends: Sequence[Sequence[str]], row: int) -> int:
    """Return how many lines at the top (or bottom) of a page are also at the top (or bottom) of an earlier page."""
    earlier = ends[max(row - _PAGES_BACK, 0) : row]
    count = 0
    while count < len(ends[row]) and any(ends[row][count] in each[count : count + 1] for each in earlier):
        count += 1
    return count


def _flowing(lines: Sequence[str]) -> list[str]:
    """Join lines of prose where a sentence clearly continues in the next line, because chunks end at line ends."""
    found: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if len(before) >= _PROSE and before[-1] not in ".:;!?" and line[0].islower():
            found[-1] += f" {line}"
        else:
            found.append(line)
    return found


def _without_number(line: str, page: _Page) -> str:
    """Return a line with "#" in place of the page's number."""
    return re.sub(rf"(?<!\S)(?:{'|'.join(map(re.escape, page.numbers))})(?![^\s/])", "#", line)


def _joined(before: str, behind: str, compounds: set[str]) -> str:
    """Join two parts of a word; keep the hyphen if the text has the word with this hyphen elsewhere."""
    whole = f"{before}-{behind}"
    return whole if whole.lower() in compounds else before + behind
