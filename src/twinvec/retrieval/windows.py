"""Windows: a text is cut into units (sentences and lines), and a window of units can become a passage.

sentencex, the segmenter of Wikimedia, cuts prose into sentences. A line of a table, of code or of a list is a unit by
itself, because its sense ends with the line. No unit begins or ends within a word, unless the word is longer than a
window: a text without spaces (Chinese, Thai, an address, encoded data) is cut between its characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple
from unicodedata import category, east_asian_width

SHORTEST = 60
LONGEST = 320
"""A window below ``SHORTEST`` characters grows; a unit above ``LONGEST`` columns (wide letters have two) is cut."""

MOST_UNITS = 3
"""Largest number of units in a window; a window of less than ``SHORTEST`` characters may have more."""

_PART = LONGEST // MOST_UNITS  # columns of each part of a unit that is cut
_MARKS = 16  # most characters by which a piece of a word is extended, for combining marks behind its last letter

_LANGUAGE = "en"  # sentencex has general rules for all scripts; only the abbreviations are English
_LINE = re.compile(r"[^\n]+")
_HEAD = r"[^\S\n]*(?:>[^\S\n]*|(?:[-*+]|\d{1,3}[.)])[^\S\n]+)*"  # the beginning of a line in a quotation or a list item
_FENCE_SIGN = r"(```(?!`*[^`\n]+`)|~~~)"  # ```code``` in one line is part of a sentence
_FENCE = re.compile(_HEAD + _FENCE_SIGN)
_FENCE_END = re.compile(r"[^\S\n]*(?:>[^\S\n]*)*" + _FENCE_SIGN)  # a fence in a list item does not end a block of code
_FENCES = re.compile(f"^{_HEAD}{_FENCE_SIGN}(.*)$", re.MULTILINE)
_COMMENT = re.compile(r"\s*<!--.*-->\s*$")
_ALONE = re.compile(  # the beginning of a table row, a heading, or a line like code
    r"\s*\||#{1,6}\s|\s*(?:>>>|\$|#!|#include|@\w|import\s|from\s\S+\simport\s|(?:async\s+)?def\s\w+\(|class\s\w+[(:])"
    r"|\s*[\w.]+ [-+*/|&]?= "
)
_ENDS = (*";{}[(\\])", "],", "),", "},")  # ends of lines that look like code
_CALL = re.compile(r"\w\(")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s")
_INDENTED = re.compile(r"(?: {4}|\t)")
_KEYWORD = re.compile(  # words that begin a line of code; a sentence begins with a capital letter
    r"(?:assert|break|case|const|continue|default|del|elif|else|except|export|final|finally|fn|for|func|function|go|if|int"
    r"|let|new|private|public|pub|raise|return|static|switch|throw|try|type|using|var|void|while|with|yield)\b"
)
_CODE_CALL = re.compile(r"\w\((?!\d\w?\))")  # excludes pages of manuals, such as ssh_config(5)
_CODE_SIGN = re.compile(r"[^\w\s.,;:!?'\"()/‐-‟、。，；：！？（）「」-]|_")
_PROSE_LINE = 40  # columns; a wrapped line of prose has at least about as many
_WORD = re.compile(r"\S+")
_NOTHING = re.compile(r"[\W_]*$")
_CLOSING = re.compile(r"(?<=\S)[*_`]+(?=\s|$)")  # Markdown's closing marks at the end of a sentence
_JOINER = "\u200d"  # stands between the parts of an emoji
_JOINED = (_JOINER, "\u0e33", "\u0eb3")  # vowel signs of Thai and Lao that Unicode counts as letters
_PERHAPS_WIDE = re.compile(r"[\u1100-\U0010ffff]")
# Unicode categories of signs, without opening brackets
_ENDING_SIGNS = ("Pc", "Pd", "Pe", "Pf", "Po", "Sc", "Sk", "Sm", "So")


class Span(NamedTuple):
    """A stretch of a text, in characters."""

    start: int
    end: int


def whole_lines(text: str, lines: str) -> list[int]:
    """Return the positions at which ``lines`` stand in a text as whole lines; blanks may surround them."""
    if not lines.strip():
        return []
    found = re.finditer(re.escape(lines) + r"[^\S\n]*(?=\n|\Z)", text)
    return [at for each in found if not text[text.rfind("\n", 0, at := each.start()) + 1 : at].strip()]


def units(text: str, start: int = 0) -> list[Span]:
    """Return the sentences and lines of ``text`` from ``start`` on, in order; white space between them is left out.

    A unit has a letter or a digit. A unit of more than ``LONGEST`` columns is cut. A line that introduces the unit
    below it, such as the name of an option or of a function, is joined with that unit.
    """
    found: list[Span] = []
    for block in blocks(text, start):
        for unit in _cut(text, block):
            if found and unit.end - found[-1].start <= LONGEST and _introduces(text, found[-1], unit):
                found[-1] = Span(found[-1].start, unit.end)
            else:
                found.append(unit)
    return found


def beginning(text: str, start: int = 0) -> Span:
    """Return the beginning of ``text`` from ``start`` on, at most ``LONGEST`` columns, for a text without units."""
    rest = text[start:]
    if not rest.strip():
        return Span(0, len(text))
    return next(_short(text, Span(start + len(rest) - len(rest.lstrip()), start + len(rest.rstrip()))))


def _introduces(text: str, line: Span, unit: Span) -> bool:
    """Return whether a line stands directly above a unit that is further indented."""
    between = text[line.end : unit.start]
    if not between.isspace() or between.count("\n") != 1 or "\n" in text[line.start : line.end]:
        return False
    before = text[text.rfind("\n", 0, line.start) + 1 : line.start]
    indentation = between.rpartition("\n")[2]
    return not before.strip() and len(indentation.expandtabs()) > len(before.expandtabs())


def windows(spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Yield the windows over units, small windows first, as pairs: index of the first unit, index after the last.

    A window has at most ``MOST_UNITS`` units and ``LONGEST`` characters. One unit is always a window.
    """
    for size in range(1, MOST_UNITS + 1):
        for first in range(len(spans) - size + 1):
            if size == 1 or spans[first + size - 1].end - spans[first].start <= LONGEST:
                yield first, first + size


def grown(text: str, spans: Sequence[Span], first: int, end: int) -> Span:
    """Return the span of a window, extended by the units after it, and then by the units before it.

    The window grows while it is short enough, and only within a page. A window that ends with a colon grows further. If
    the result is still very short or ends with a colon, the first words of the next, long unit are added.
    """

    def holds(first: int, end: int, seam: int) -> bool:
        is_short = spans[end - 1].end - spans[first].start <= LONGEST
        return is_short and "\f" not in text[spans[seam - 1].end : spans[seam].start]

    def opens(end: int) -> bool:
        return text[spans[end - 1].end - 1] == ":"

    while end < len(spans) and (_may_grow(spans, first, end) or opens(end)) and holds(first, end + 1, end):
        end += 1
    while first > 0 and _may_grow(spans, first, end) and holds(first - 1, end, first):
        first -= 1
    start, stop = spans[first].start, spans[end - 1].end
    is_open = stop - start < SHORTEST or opens(end)
    if end < len(spans) and is_open and "\f" not in text[stop : spans[end].start]:
        stop = max(stop, _end_of_words(text, spans[end].start, start + LONGEST))
    return Span(start, stop)


def _end_of_words(text: str, start: int, last: int) -> int:
    """Return the end of the last word within ``text[start:last]``; 0 if there is none.

    A word has a letter or a digit, so that a passage does not end with marks alone.
    """
    words = (each for each in _WORD.finditer(text, start, last + 1) if each.end() <= last)
    return max((each.end() for each in words if not _NOTHING.match(text, *each.span())), default=0)


def _may_grow(spans: Sequence[Span], first: int, end: int) -> bool:
    return end - first < MOST_UNITS or spans[end - 1].end - spans[first].start < SHORTEST


class Block(NamedTuple):
    """Lines that belong together; ``prose`` is False for a line that stands alone."""

    start: int
    end: int
    prose: bool


def blocks(text: str, start: int = 0) -> Iterator[Block]:
    """Yield the blocks of a text from ``start`` on.

    Each table row, code line and heading is a block, and so are adjacent lines of prose together. Each item of a list
    begins a block. Empty lines, comments and the fences around code are left out.
    """
    begun: int | None = None  # start of the prose before the line
    ended = start  # end of the previous line
    fence = _open_fence(text, start)
    for line in _LINE.finditer(text, start):
        words = line[0]
        blank = line.start() > ended + 1 or words.isspace()
        if begun is not None and not blank and _is_label(text, Span(begun, ended), words):
            yield Block(begun, ended, prose=False)
            begun = None
        marks = (_FENCE_END if fence else _FENCE).match(words)
        indented = _INDENTED.match(words) and (blank or begun is None) and not _is_prose(words)
        own = bool(fence or marks or indented or _is_alone(words) or _COMMENT.match(words))
        if begun is not None and (own or blank or _ITEM.match(words)):
            yield Block(begun, ended, prose=True)
            begun = None
        if marks and fence in ("", marks[1]):
            fence = "" if fence else marks[1]
        elif own and not words.isspace() and not _COMMENT.match(words):
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
    is_head = line.endswith("):") and _CALL.search(line, 0, len(line) - 2) is not None
    return is_head or (line.endswith(_ENDS) and not _is_prose(line))


def _is_label(text: str, above: Span, line: str) -> bool:
    """Return whether ``above`` is a short line that introduces the next one: less indented, and no item of a list."""
    if text.find("\n", above.start, above.end) >= 0:  # tested first, because the next test copies the text
        return False
    if _ITEM.match(text, above.start, above.end) or _columns(text, above) >= _PROSE_LINE:
        return False
    return _indentation(line) > _indentation(text[above.start : above.end])


def _indentation(line: str) -> int:
    return len(line[: len(line) - len(line.lstrip())].expandtabs())


def _is_prose(line: str) -> bool:
    """Return whether a line that is indented (as in manuals) or ends with a bracket is prose and not code."""
    line = line.strip()
    is_code = _KEYWORD.match(line) or _CODE_CALL.search(line) or len(_CODE_SIGN.findall(line)) > 1
    return not is_code and _columns(line, Span(0, len(line))) >= _PROSE_LINE


def _open_fence(text: str, start: int) -> str:
    """Return the fence of the block of code in which a text begins, or "": a chunk may be the rest of such a block."""
    fences = list(_FENCES.finditer(text, start))
    inside = len(fences) % 2 == 1 and not fences[0][2].strip()
    return fences[0][1] if inside else ""


def _cut(text: str, block: Block) -> Iterator[Span]:
    from sentencex import get_sentence_boundaries

    pieces = [Span(block.start, block.end)]
    if block.prose:
        # skipped, because the dot after an item's number ends no sentence
        mark = _ITEM.match(text, block.start, block.end)
        begin = mark.end() if mark else block.start
        # spaces replace line ends, so that a wrapped line does not end a sentence
        bounds = get_sentence_boundaries(_LANGUAGE, text[begin : block.end].replace("\n", " "))
        ends = [begin + each["end_index"] for each in bounds]
        closed = [close.end() if (close := _CLOSING.match(text, end, block.end)) else end for end in ends]
        pieces = [Span(*each) for each in pairwise([block.start, *closed])]
    for piece in pieces:
        for part in _short(text, _trimmed(text, piece)):
            unit = _trimmed(text, part)
            if not _NOTHING.match(text, unit.start, unit.end):
                yield unit


def _short(text: str, unit: Span) -> Iterator[Span]:
    """Yield a unit, or its parts if it is longer than a window: of about equal size, at most ``_PART`` columns."""
    if (columns := _columns(text, unit)) <= LONGEST:
        yield unit
        return
    size = _part_size(unit, columns)
    start = end = unit.start
    for word in _WORD.finditer(text, unit.start, unit.end):
        for piece in _pieces(text, Span(*word.span())):
            if end > start and piece.start + piece.end > 2 * (start + size):  # more than half is beyond the part
                yield Span(start, end)
                start = piece.start
            end = piece.end
    yield Span(start, end)


def _pieces(text: str, word: Span) -> Iterator[Span]:
    """Yield a word, or its pieces if it is longer than a window; a piece ends behind punctuation if possible."""
    if (columns := _columns(text, word)) <= LONGEST:
        yield word
        return
    size, start = _part_size(word, columns), word.start
    while word.end - start > 1.5 * size:
        end = _end_of_piece(text, start, start + size)
        yield Span(start, end)
        start = end
    yield Span(start, word.end)


def _part_size(span: Span, columns: int) -> int:
    """Return the number of characters of a part if a span of ``columns`` columns is cut into equal parts."""
    parts = -(-columns // _PART)
    return -(-(span.end - span.start) // parts)


def _end_of_piece(text: str, start: int, end: int) -> int:
    """Return where a piece of a long word ends: behind punctuation in its second half, or else at ``end``.

    Characters that belong to the one before them are added.
    """
    behind_signs = (at for at in range(end, (start + end) // 2, -1) if category(text[at - 1]) in _ENDING_SIGNS)
    found = next(behind_signs, end)
    while found < end + _MARKS and _continues(text, found):
        found += 1
    return found


def _continues(text: str, at: int) -> bool:
    """Return whether a character belongs to the one before it: an accent, a vowel sign, a part of an emoji."""
    character = text[at]
    return (
        category(character)[0] == "M"
        or character in _JOINED
        or text[at - 1] == _JOINER
        or "\U0001f3fb" <= character <= "\U0001f3ff"
    )


def _columns(text: str, span: Span) -> int:
    """Return the columns that a span takes in a terminal, where some characters are wide."""
    part = text[span.start : span.end]
    if part.isascii():
        return len(part)
    return len(part) + sum(east_asian_width(each) in ("W", "F") for each in _PERHAPS_WIDE.findall(part))


def _trimmed(text: str, span: Span) -> Span:
    """Leave out white space at both ends, and lines without a letter or a digit, such as the rule below a heading."""
    start, end = span
    while (line := text.find("\n", start, end)) >= 0 and _NOTHING.match(text, start, line):
        start = line + 1
    while (line := text.rfind("\n", start, end)) >= 0 and _NOTHING.match(text, line, end):
        end = line
    piece = text[start:end]
    begin = start + len(piece) - len(piece.lstrip())
    return Span(begin, max(begin, start + len(piece.rstrip())))
