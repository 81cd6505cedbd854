"""PDF in reading version 1: the Markdown of markitdown, and the offset at which each page starts in it.

PDFium reads the text of each page. A piece of this text is then looked for in the Markdown. Only letters and digits
are compared, because the spaces and lines of the two texts differ.
"""

from __future__ import annotations

from collections.abc import Sequence

from twinvec.errors import DocumentError
from twinvec_qdrant.ingest.reading.converting import convert
from twinvec_qdrant.ingest.reading.pdf_pages import damaged, page_texts

_PIECE = 40  # length of a search string, in letters and digits; a string of this length is unique in most texts
_STEP = 20
_TRIES = 30


def read_pdf_of_version_1(data: bytes) -> tuple[str, tuple[int, ...]]:
    """Return the text of a PDF, and the offset in it where each page starts, as ``read_pdf`` does.

    The offsets are empty if PDFium finds no page.
    """
    pages = [text for text, _ in page_texts(data)]
    try:
        text = convert(data, ".pdf", version=1)
    except DocumentError as error:
        if pages:
            raise
        raise damaged() from error
    return text, _page_starts(pages, text)


def _page_starts(pages: Sequence[str], text: str) -> tuple[int, ...]:
    """Return the offset in ``text`` where each page starts; a page that is not found gets the next page's offset."""
    letters, offsets = _letters(text)
    found: list[int | None] = []
    begin = 0
    for page in pages:
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


def _letters(text: str) -> tuple[str, list[int]]:
    """Return the letters and digits of a text, and the offset of each in the text."""
    offsets = [row for row, letter in enumerate(text) if letter.isalnum()]
    return "".join([text[row] for row in offsets]), offsets


def _place(page: str, letters: str, begin: int) -> int | None:
    """Return where a page starts: by a piece found only once in the rest of the text, else by the first piece found."""
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
