"""The words of a text, as the word tokenizer of Qdrant's text indexes finds them: runs of letters and digits.

Letters include the vowel signs and points of scripts such as Devanagari and Hebrew. Python has no table of these
signs, so they are recognised by their combining class.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_ASCII_WORD = re.compile(r"[A-Za-z0-9]+")
_VOWEL_CLASSES = frozenset((0, 6, *range(10, 37), 84, 91, 103, 118, 129, 130, 132))
_MARKS = (range(0x300, 0xFE00), range(0x10000, 0x1F000))  # without variation selectors (U+FE00 to U+FE0F)


def words(text: str) -> list[str]:
    """Return the words in their order, in lower case."""
    pattern = _ASCII_WORD if text.isascii() else _word_pattern()
    return [word.lower() for word in pattern.findall(text)]


def searchable_parts(text: str) -> list[str]:
    """Cut a text where every tokenizer of a store cuts, and return the parts that have words."""
    return words(text) if text.isascii() else [part for part in text.split() if words(part)]


def has_phrase(text: str, phrase: str) -> bool:
    """Return whether the words of ``phrase`` stand one after another in ``text``."""
    wanted, found = words(phrase), words(text)
    return any(found[start : start + len(wanted)] == wanted for start in range(len(found) - len(wanted) + 1))


@cache
def _word_pattern() -> re.Pattern[str]:
    signs = (chr(code) for codes in _MARKS for code in codes)
    vowels = "".join(
        sign
        for sign in signs
        if unicodedata.category(sign) in ("Mn", "Mc") and unicodedata.combining(sign) in _VOWEL_CLASSES
    )
    return re.compile(rf"(?:[^\W_]|[{vowels}])+")
