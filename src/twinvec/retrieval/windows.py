"""Windows: a text -> its sentences and lines, and the short stretches of it that a passage may be.

sentencex, the segmenter of Wikimedia, cuts prose into sentences. A line of a table, of code or of a list is a unit as
it is, because its sense ends with the line. No unit begins or ends within a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from twinvec.retrieval.base import Hit

SHORTEST = 60
LONGEST = 320
"""Characters of a window: a shorter one grows, and a unit that is longer is cut between words."""

MOST_UNITS = 3
"""Units of a window, not counting those of less than ``SHORTEST`` characters together."""

_LANGUAGE = "en"  # sentencex then falls back to rules that hold for all scripts; only abbreviations are English
_LINE = re.compile(r"[^\n]+")
_FENCE = re.compile(r"\s*(```|~~~)")
_FENCES = re.compile(r"^[ \t]*(```|~~~)(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"\s*<!--.*-->\s*$")
_ALONE = re.compile(  # how a row of a table, a heading, or what looks like code begins
    r"\s*\||#{1,6}\s|\s*(?:>>>|\$|#!|#include|@\w|import\s|from\s\S+\simport\s|(?:async\s+)?def\s\w+\(|class\s\w+[(:])"
    r"|\s*[\w.]+ [-+*/|&]?= "
)
_ENDS = (*";{}[(\\])", "],", "),", "},")  # of what looks like code
_CALL = re.compile(r"\w\(")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s")
_INDENTED = re.compile(r"(?: {4}|\t)")
_WORD = re.compile(r"\S+")
_NOTHING = re.compile(r"[\W_]*$")


class Span(NamedTuple):
    """A stretch of a text, in characters."""

    start: int
    end: int


def body_start(hit: Hit) -> int:
    """Return where a hit's text begins behind its heading; 0 for a text that is only a heading."""
    heading = hit.payload.get("heading")
    if not isinstance(heading, str) or not heading or not hit.text.startswith(f"{heading}\n\n"):
        return 0
    return len(heading) + 2


def whole_lines(text: str, lines: str) -> list[int]:
    """Return where ``lines`` stand in a text as whole lines, with nothing but blanks beside them."""
    if not lines.strip():
        return []
    found = re.finditer(re.escape(lines) + r"[^\S\n]*(?=\n|\Z)", text)
    return [at for each in found if not text[text.rfind("\n", 0, at := each.start()) + 1 : at].strip()]


def units(text: str, start: int = 0) -> list[Span]:
    """Return the sentences and lines of ``text`` from ``start`` on, in order; white space between them is left out.

    A stretch without a letter or a digit is no unit, and one of more than ``LONGEST`` characters is cut.
    """
    found: list[Span] = []
    for block in blocks(text, start):
        found += _cut(text, block)
    return found


def windows(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Yield the windows over units, the small ones first: pairs of the first unit and of the one behind the last.

    A window has at most ``MOST_UNITS`` units and ``LONGEST`` characters. One unit is always a window.
    """
    for size in range(1, MOST_UNITS + 1):
        for first in range(len(spans) - size + 1):
            if size == 1 or spans[first + size - 1].end - spans[first].start <= LONGEST:
                yield first, first + size


def grown(spans: Sequence[Span], first: int, end: int) -> Span:
    """Return the stretch of a window, with the units behind it and then before it, as long as it stays short enough."""
    while end < len(spans) and _may_grow(spans, first, end) and spans[end].end - spans[first].start <= LONGEST:
        end += 1
    while first > 0 and _may_grow(spans, first, end) and spans[end - 1].end - spans[first - 1].start <= LONGEST:
        first -= 1
    return Span(spans[first].start, spans[end - 1].end)


def _may_grow(spans: Sequence[Span], first: int, end: int) -> bool:
    return end - first < MOST_UNITS or spans[end - 1].end - spans[first].start < SHORTEST


class Block(NamedTuple):
    """Lines that belong together; ``prose`` is False for a line that stands alone."""

    start: int
    end: int
    prose: bool


def blocks(text: str, start: int = 0) -> Iterator[Block]:
    """Yield the blocks of a text from ``start`` on: rows of tables, lines of code and headings alone, prose together.

    Each item of a list begins a block. Empty lines, comments and the fences around code are in no block.
    """
    begun: int | None = None  # where the prose before the line began
    ended = start  # where the line before ended
    fence = _open_fence(text, start)
    for line in _LINE.finditer(text, start):
        words = line[0]
        blank = line.start() > ended + 1 or words.isspace()
        marks = _FENCE.match(words)
        indented = _INDENTED.match(words) and (blank or begun is None)
        own = bool(fence or marks or indented or _is_alone(words) or _COMMENT.match(words))
        if begun is not None and (own or blank or _ITEM.match(words)):
            yield Block(begun, ended, prose=True)
            begun = None
        if marks and fence in ("", marks[1]):
            fence = "" if fence else marks[1]
        elif own and not _COMMENT.match(words):
            yield Block(line.start(), line.end(), prose=False)
        elif not own and begun is None and not words.isspace():
            begun = line.start()
        ended = line.end()
    if begun is not None:
        yield Block(begun, ended, prose=True)


def _is_alone(line: str) -> bool:
    """Return whether a line is a row of a table, a heading, or looks like code."""
    if _ALONE.match(line):
        return True
    line = line.rstrip()
    return line.endswith(_ENDS) or (line.endswith("):") and _CALL.search(line, 0, len(line) - 2) is not None)


def _open_fence(text: str, start: int) -> str:
    """Return the fence within which a text begins, or "": a chunk may be the rest of a block of code."""
    fences = list(_FENCES.finditer(text, start))
    inside = len(fences) % 2 == 1 and not fences[0][2].strip()
    return fences[0][1] if inside else ""


def _cut(text: str, block: Block) -> Iterator[Span]:
    from sentencex import get_sentence_boundaries

    pieces = [Span(block.start, block.end)]
    if block.prose:
        mark = _ITEM.match(text, block.start, block.end)  # the number of an item ends no sentence
        begin = mark.end() if mark else block.start
        # a line of prose ends within a sentence: with a space in place of its end, nothing is cut there
        bounds = get_sentence_boundaries(_LANGUAGE, text[begin : block.end].replace("\n", " "))
        ends = [begin + each["end_index"] for each in bounds]
        pieces = [Span(*each) for each in pairwise([block.start, *ends])]
    for piece in pieces:
        for unit in _short(text, _trimmed(text, piece)):
            if not _NOTHING.match(text, unit.start, unit.end):
                yield unit


def _short(text: str, unit: Span) -> Iterator[Span]:
    """Yield a unit, or its parts of at most ``LONGEST`` characters; a longer word is a part of its own."""
    if unit.end - unit.start <= LONGEST:
        yield unit
        return
    start = end = unit.start
    for word in _WORD.finditer(text, unit.start, unit.end):
        if word.end() - start > LONGEST and end > start:
            yield Span(start, end)
            start = word.start()
        end = word.end()
    yield Span(start, end)


def _trimmed(text: str, span: Span) -> Span:
    piece = text[span.start : span.end]
    start = span.start + len(piece) - len(piece.lstrip())
    return Span(start, max(start, span.start + len(piece.rstrip())))
