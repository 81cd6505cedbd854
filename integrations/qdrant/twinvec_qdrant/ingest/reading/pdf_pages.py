"""Pages: where each page of a PDF starts in the text that markitdown made of the PDF.

pypdfium2, which comes with the extra ``documents``, reads the text of each page. A piece of each page is looked for in
the whole text, comparing letters and digits only, since the two differ in their spaces and lines.
"""

from __future__ import annotations

from contextlib import closing
from threading import Lock
from typing import Any

from twinvec.support.extras import import_extra

_PIECE = 40  # letters and digits: enough to be found once in most texts
_STEP = 20
_TRIES = 30

_pdfium = Lock()  # PDFium serves one thread at a time


def page_starts(data: bytes, text: str) -> tuple[int, ...]:
    """Return the offset in ``text`` where each page starts; a page that is not found has that of the next one.

    The result is empty if PDFium cannot read the file or finds no page.
    """
    letters, offsets = _letters(text)
    found: list[int | None] = []
    begin = 0
    for page in _pages(data):
        place = _place(_letters(page)[0], letters, begin)
        found.append(None if place is None else offsets[place])
        begin = begin if place is None else place + 1
    if found:
        found[0] = 0
    following = len(text)
    for row in reversed(range(len(found))):
        start = found[row]
        following = following if start is None else start
        found[row] = following
    return tuple(each for each in found if each is not None)


def _pages(data: bytes) -> list[str]:
    """Return the text of each page; nothing if the file cannot be read."""
    pdfium = import_extra("pypdfium2", "documents", "reading the pages of .pdf files", "twinvec-qdrant")
    try:
        with _pdfium, closing(pdfium.PdfDocument(data)) as document:
            return [_text(document, row) for row in range(len(document))]
    except pdfium.PdfiumError:
        return []


def _text(document: Any, row: int) -> str:
    with closing(document[row]) as page, closing(page.get_textpage()) as words:
        return str(words.get_text_bounded())


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, and the offset of each in the text."""
    offsets = [row for row, letter in enumerate(text) if letter.isalnum()]
    return "".join([text[row] for row in offsets]), offsets


def _place(page: str, letters: str, begin: int) -> int | None:
    """Return where a page starts: by a piece that occurs once in the rest of the text, else by its first piece."""
    first = None
    for start in range(0, min(len(page), _TRIES * _STEP), _STEP):
        piece = page[start : start + _PIECE]
        found = letters.find(piece, begin)
        if found < 0:
            continue
        if first is None:
            first = max(found - start, begin)
        if letters.find(piece, found + 1) < 0:
            return max(found - start, begin)
    return first
