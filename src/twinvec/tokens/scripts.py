"""Scripts that a vocabulary only spells: it has the letters of a script, but hardly any longer pieces of words.

A model does not know the words of such a script. The English vocabulary of BERT has 27,533 longer pieces of Latin
words, but 8 of Cyrillic words and none of Hangul. A single Chinese character is a word or a part of a word, so a
vocabulary of Chinese has many.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cache

LEAST_PIECES = 50
"""Number of distinct pieces of two or more letters from which on a vocabulary knows the words of a script.

Multilingual vocabularies have hundreds of pieces of each script.
"""

LEAST_HAN = 1000
"""Number of distinct Chinese characters from which on a vocabulary knows Chinese.

English vocabularies have some hundreds of them, Chinese ones thousands.
"""

_HAN = "CJK"
_WRITTEN_IN_WORDS = frozenset(
    (
        *("CYRILLIC", "GREEK", "ARMENIAN", "GEORGIAN", "ARABIC", "HEBREW", "ETHIOPIC", "THAI", "LAO", "KHMER"),
        *("MYANMAR", "TIBETAN", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU"),
        *("KANNADA", "MALAYALAM", "SINHALA", "HANGUL", "HIRAGANA", "KATAKANA", "MONGOLIAN", _HAN),
    )
)
"""The scripts, by the first word of their characters' names. Latin is left out: every vocabulary here has its words."""


def spelled_scripts(pieces: Iterable[str]) -> frozenset[str]:
    """Return the scripts that a vocabulary only spells; ``pieces`` are the texts of its tokens."""
    known: defaultdict[str, set[str]] = defaultdict(set)
    for piece in pieces:
        if piece.isascii():
            continue
        letters = [each for each in piece if _script(each)]
        for script in {_script(each) for each in letters}:
            if len(letters) > 1 or script == _HAN:
                known[script].add("".join(letters))
    return frozenset(
        each for each in _WRITTEN_IN_WORDS if len(known[each]) < (LEAST_HAN if each == _HAN else LEAST_PIECES)
    )


def letters_by_script(text: str) -> Counter[str]:
    """Count the letters and marks of a text by script, except for Latin."""
    counts: Counter[str] = Counter()
    for character, number in () if text.isascii() else Counter(text).items():
        if script := _script(character):
            counts[script] += number
    return counts


@cache
def _script(character: str) -> str:
    """Return the script of a letter or mark; "" for any other character, and for scripts that are left out."""
    if unicodedata.category(character)[0] not in "LM":
        return ""
    script = unicodedata.name(character, "").partition(" ")[0].partition("-")[0]
    return script if script in _WRITTEN_IN_WORDS else ""
