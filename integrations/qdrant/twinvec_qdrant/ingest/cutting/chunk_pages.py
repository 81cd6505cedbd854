"""Pages of chunks: marks the page breaks of a PDF by form feeds, and finds the page on which each chunk starts.

A chunk may hold several short pages. The form feeds in its text show on which page a passage is
(``twinvec.retrieval.base.pages_of``). When twinvec reads a PDF, the text has no form feeds. A document that a program
passes to an ingest may have form feeds already.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

BREAK = "\f"


def with_breaks(text: str, starts: Sequence[int]) -> tuple[str, list[int]]:
    """Return the text of a PDF with a form feed before each page but the first, and the new offsets of its pages.

    ``starts`` has the offset of each page's first letter. The text may already have form feeds.
    """
    if BREAK in text:
        return text, [_behind_break(text, start) for start in starts]
    parts, offsets, done = [], [0] * bool(starts), 0
    for row, start in enumerate(starts[1:], 1):
        at = max(text.rfind("\n", done, start), done)  # puts the form feed on the empty line between two pages
        parts.append(text[done:at])
        offsets.append(at + row)
        done = at
    return BREAK.join([*parts, text[done:]]), offsets


def _behind_break(text: str, start: int) -> int:
    """Return where a page begins: after its form feed, so that the page includes leading punctuation and spaces.

    If letters or digits stand between the form feed and ``start``, return ``start``.
    """
    found = text.rfind(BREAK, 0, start) + 1
    return start if any(map(str.isalnum, text[found:start])) else found


def pages_of_pieces(pieces: Sequence[str], text: str, starts: Sequence[int]) -> list[int]:
    """Return the page on which each piece starts; ``starts`` has the offset of every page in the text.

    The cutting may put a heading before a piece. The text then does not contain the whole piece, so this function
    searches for the piece's last line.
    """
    pages, begin = [], 0
    for piece in pieces:
        found = text.find(piece, begin)
        if found < 0:
            found = text.find(piece.rpartition("\n")[2], begin)
        begin = max(found, begin)
        pages.append(max(bisect_right(starts, begin), 1))
    return pages
