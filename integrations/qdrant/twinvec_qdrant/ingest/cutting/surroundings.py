"""Surroundings: the text before and after each piece of a section, which is embedded together with it.

A piece of one or two sentences says little by itself ("It was raised again in May."); the text around it shows its
subject. Surroundings begin and end between sentences, or between words if no sentence ends near enough. They stay
within the section, because the text under another heading has another subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from twinvec_qdrant.stores.points import pages

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*\s+|[。！？]|\n\s*\n")
_SPACE = re.compile(r"\s+")
_CHARACTERS_PER_TOKEN = 8  # upper estimate, more than most texts have
_AT_ONCE = 256  # pieces whose surroundings are tokenised in one call

Offsets = Sequence[tuple[int, int]]
"""Where each token of a text starts and ends."""


def surrounded(
    section: str, pieces: Sequence[str], rooms: Sequence[int], tokens: int, tokenizer: Tokenizer
) -> Iterator[str]:
    """Yield each piece with the text of its section around it: up to ``tokens`` tokens before and after together.

    Args:
        section: The text that contains the pieces; a piece that it does not contain is yielded unchanged.
        pieces: The pieces in the order of the section; they may overlap.
        rooms: For each piece, the number of tokens that the model can read in addition to the piece.
        tokens: Largest number of tokens around a piece. Half of them are before the piece, or more if fewer follow it.
        tokenizer: A tokenizer that does not truncate.
    """
    width = tokens * _CHARACTERS_PER_TOKEN
    for page in pages(zip(_spans(section, pieces), pieces, rooms, strict=True), _AT_ONCE):
        spans = [span for span, _, _ in page]
        before = [section[max(start - width, 0) : start] for start, _ in spans]
        after = [section[end : end + width] for _, end in spans]
        encodings = tokenizer.encode_batch([*before, *after], add_special_tokens=False)
        offsets = [[span for span in each.offsets if span[1] > span[0]] for each in encodings]
        for row, ((start, end), piece, room) in enumerate(page):
            if not end:
                yield piece
                continue
            left, right = _taken(offsets[row], offsets[row + len(page)], min(tokens, room))
            begin = start - (len(before[row]) - left[0][0] if left else 0)
            until = end + (right[-1][1] if right else 0)
            yield section[_first(section, begin, start) : _last(section, end, until)].strip()


def _spans(section: str, pieces: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each piece starts and ends in the section, or (0, 0) if the section does not contain the piece."""
    begin = 0
    for piece in pieces:
        start = section.find(piece, begin)
        if start < 0 or not piece:
            yield (0, 0)
        else:
            begin = start + 1
            yield (start, start + len(piece))


def _taken(before: Offsets, after: Offsets, tokens: int) -> tuple[Offsets, Offsets]:
    """Return the last tokens before a piece and the first tokens after it, together at most ``tokens``."""
    tokens = max(tokens, 0)
    following = min(len(after), max(tokens - tokens // 2, tokens - len(before)))
    preceding = min(len(before), tokens - following)
    return before[len(before) - preceding :], after[:following]


def _first(section: str, begin: int, piece: int) -> int:
    """Return where the first sentence starts between ``begin`` and the piece, or else the first word."""
    if begin == 0:
        return 0
    for boundary, length in ((_SENTENCE_END, 2), (_SPACE, 1)):
        found = boundary.search(section, max(begin - length, 0), piece)
        if found and found.end() < piece:
            return max(found.end(), begin)
    return begin


def _last(section: str, piece: int, until: int) -> int:
    """Return where the last sentence ends between the end of the piece and ``until``, or else the last word."""
    if until == len(section):
        return until
    for boundary in (_SENTENCE_END, _SPACE):
        ends = [each for each in boundary.finditer(section, piece, until + 1) if section[piece : each.end()].strip()]
        if ends:
            return ends[-1].end()
    return until
