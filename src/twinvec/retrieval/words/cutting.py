"""Cutting: a text is normalised (NFKC) and cut into words of any script: runs of letters, digits and underscores.

Each Chinese character is a word, as in Lucene's ``StandardAnalyzer``. Case stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tokenizers import PreTokenizedString, Regex, normalizers

# Python's \w lacks the vowel signs of the Indic scripts; tokenizers' \w follows Unicode and has them.
_UNICODE_WORDS = normalizers.Sequence(
    [
        normalizers.NFKC(),
        normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=False),
        normalizers.Replace(Regex(r"\W+"), " "),
    ]
)

# ``_UNICODE_WORDS`` is slow. For ASCII, a byte table does the same. Other text goes through it piece by piece, cut at
# white space, because none of its steps looks across a space.
ASCII_WORDS = bytes(code if chr(code).isalnum() or code == ord("_") else ord(" ") for code in range(128))
ASCII_WORDS += bytes(range(128, 256))
"""Table for ``bytes.translate``: every ASCII character that is in no word becomes a space."""

CONTROLS = "".join(chr(code) for code in (*range(32), 127) if chr(code) not in "\t\n\r")
"""The control characters that are removed, also inside a word."""

ASCII_CONTROLS = CONTROLS.encode("ascii")
NO_CONTROLS = dict.fromkeys(map(ord, CONTROLS))
PIECE = re.compile(r"[^ \t\n\r]+")
_ASCII_WORD = re.compile(rf"[A-Za-z0-9_](?:[{re.escape(CONTROLS)}]*[A-Za-z0-9_])*")


class Word(NamedTuple):
    """A normalised (unstemmed) word of a text; ``text[start:end]`` is its original spelling."""

    text: str
    start: int
    end: int


def words(text: str) -> list[str]:
    """Return the words of a text in order; a piece that is not ASCII stays whole, and ``split`` splits it."""
    if text.isascii():
        return text.encode("ascii").translate(ASCII_WORDS, ASCII_CONTROLS).decode("ascii").split()
    found: list[str] = []
    for piece in PIECE.findall(text):
        if piece.isascii():
            found += words(piece)
        else:
            found.append(piece)
    return found


def split(piece: str) -> list[str]:
    """Return the words of a piece that ``words`` has returned, normalised."""
    return [piece] if piece.isascii() else _UNICODE_WORDS.normalize_str(piece).split()


def placed_words(text: str, first: int, last: int) -> Iterator[Word]:
    """Yield the words of ``text[first:last]`` in order, with their places in the text."""
    for piece in PIECE.finditer(text, first, last):
        begin = piece.start()
        if piece[0].isascii():
            for found in _ASCII_WORD.finditer(piece[0]):
                yield Word(found[0].translate(NO_CONTROLS), begin + found.start(), begin + found.end())
        else:
            normalized = PreTokenizedString(piece[0])
            normalized.normalize(_UNICODE_WORDS.normalize)
            normalized.split(lambda _, part: part.split(" ", "removed"))
            for word, (start, end), _ in normalized.get_splits(offset_referential="original", offset_type="char"):
                yield Word(word, begin + start, begin + end)
