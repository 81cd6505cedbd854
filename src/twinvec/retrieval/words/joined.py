"""Words with signs: acronyms, joined words, numbers with commas between their thousands, and names such as "C++".

From version 4 of the analysis on, letters with dots between them are one word, as Lucene's ``ClassicFilter`` has it:
"U.S.A." is "USA".

From version 5 on, letters and digits with single dots between them are a joined word: "node.js", "3.11", "v1.18.3",
"192.168.1.1". These are the dots at which Lucene's ``StandardTokenizer`` does not cut (MidNumLet in Unicode's UAX #29,
rules WB6, WB7, WB11 and WB12). In addition, a dot may join a letter and a digit, as in "chapter2.md" and "H.264".
Joined words are Latin, Greek or Cyrillic. Scripts without spaces may stand right beside them: "使用Node.js开发".

Commas between thousands (MidNum in UAX #29) are left out from version 5 on: "1,000" is "1000". Other commas cut.

A single Latin letter with "++" or "#" is a word from version 5 on: "C++", also in "C++17", "C#" and "F#".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from twinvec.retrieval.words.cutting import (
    ASCII_CONTROLS,
    ASCII_WORDS,
    CONTROLS,
    NO_CONTROLS,
    PIECE,
    Word,
    placed_words,
    split,
    words,
)

_LETTER = "[A-Za-zÀ-ÖØ-öø-ɏΑ-ώЀ-џ]"  # Latin, Greek and Cyrillic
_ACRONYM = re.compile(rf"(?<![\w.]){_LETTER}(?:\.{_LETTER})+(?!\.?\w)")

_ALPHANUMERIC = "0-9A-Za-zÀ-ÖØ-öø-ʯ\u0300-ԯ\u1e00-\u1fff"  # with the combining accents
_PART = rf"_*+[{_ALPHANUMERIC}][_{_ALPHANUMERIC}]*+"
_JOINED = re.compile(rf"(?<![_{_ALPHANUMERIC}]){_PART}(?:\.{_PART})++")

_SIGNED = re.compile(rf"(?<![_{_ALPHANUMERIC}.])[A-Za-z](?:\+\+|#)(?![_A-Za-z#+])")
_ASCII_SIGNED = re.compile(rb"(?<![_A-Za-z0-9.])[A-Za-z](?:\+\+|#)(?![_A-Za-z#+])")
_ASCII_SIGNS = re.compile(rb"(%s)|[+#]" % _ASCII_SIGNED.pattern)
_WHOLE = re.compile(rf"{_JOINED.pattern}|{_SIGNED.pattern}")

_THOUSANDS = re.compile(r"(?<![\w.,])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9]|,[0-9])")
_ASCII_THOUSANDS = re.compile(_THOUSANDS.pattern.encode("ascii"))
_ASCII_GROUP = re.compile(rb",(?<=[0-9],)(?=[0-9]{3})")  # quicker; most texts have none
_ASCII_DOTTED = bytes(code if chr(code) in ".,+#" else ASCII_WORDS[code] for code in range(256))
_NO_SIGNS = bytes.maketrans(b"+#", b"  ")


def without_dots(text: str) -> str:
    """Return the text without the dots between the letters of acronyms: "U.S.A." becomes "USA."."""
    return _ACRONYM.sub(lambda acronym: acronym[0].replace(".", ""), text)


def placed_acronyms(text: str) -> Iterator[Word]:
    """Yield the words of a text in order, with their places; each acronym is one word."""
    end = 0
    for acronym in _ACRONYM.finditer(text):
        yield from placed_words(text, end, acronym.start())
        end = acronym.end()
        for word in split(acronym[0].replace(".", "")):
            yield Word(word, acronym.start(), end)
    yield from placed_words(text, end, len(text))


def dotted_words(text: str) -> list[str]:
    """Return the pieces of a text in order, cut between words; ``split_dotted`` splits each of them.

    Most pieces are words. Others have dots inside or at an end, end with "++" or "#", or are not ASCII.
    """
    if text.isascii():
        plain = text.encode("ascii").translate(_ASCII_DOTTED, ASCII_CONTROLS)
        if _ASCII_SIGNED.search(plain):
            plain = _ASCII_SIGNS.sub(lambda sign: (sign[1] or b"") + b" ", plain)
        else:
            plain = plain.translate(_NO_SIGNS)
        if _ASCII_GROUP.search(plain):
            plain = _ASCII_THOUSANDS.sub(lambda number: number[0].replace(b",", b""), plain)
        return plain.replace(b",", b" ").replace(b". ", b" ").decode("ascii").split()
    found: list[str] = []
    for piece in PIECE.findall(text):
        if piece.isascii() and not piece.isalnum():
            found += dotted_words(piece)
        else:
            found.append(piece)
    return found


def split_dotted(piece: str) -> list[str]:
    """Return the words of a piece that ``dotted_words`` has returned, normalised; "node.js" and "C++" stay whole."""
    plain = _without_commas(piece.translate(NO_CONTROLS))
    if _WHOLE.search(plain):
        return [word.text for word in _placed(plain)]
    return [word for part in words(plain) for word in split(part)]


def placed_dotted_words(text: str) -> Iterator[Word]:
    """Yield the words of a text in order, with their places, as ``dotted_words`` and ``split_dotted`` find them."""
    for piece in PIECE.finditer(text):
        kept = _kept(piece[0])
        for word in _placed("".join([piece[0][at] for at in kept])):
            yield Word(word.text, piece.start() + kept[word.start], piece.start() + kept[word.end - 1] + 1)


def joined_words(text: str) -> list[str]:
    """Return the joined words of a text, without the acronyms."""
    return [joined[0] for joined in _JOINED.finditer(_without_commas(text)) if not _is_acronym(joined[0])]


def thousands(text: str) -> list[str]:
    """Return "1000" for each "1,000" of a text: the numbers that have commas, without the commas."""
    return [number.replace(",", "") for number in _THOUSANDS.findall(text)]


def masked(text: str) -> str:
    """Return the text with underscores in place of its joined words; all other characters keep their places."""
    return _JOINED.sub(lambda joined: joined[0] if _is_acronym(joined[0]) else "_" * len(joined[0]), text)


def _placed(piece: str) -> Iterator[Word]:
    """Yield the words of a piece in order. The piece must have neither white space nor control characters."""
    end = 0
    for whole in _WHOLE.finditer(piece):
        yield from placed_words(piece, end, whole.start())
        end = whole.end()
        if "." not in whole[0]:
            yield Word(whole[0], whole.start(), end)
            continue
        parts = [word for part in whole[0].split(".") for word in split(part)]
        if parts:
            yield Word(("" if _is_acronym(whole[0]) else ".").join(parts), whole.start(), end)
    yield from placed_words(piece, end, len(piece))


def _is_acronym(joined: str) -> bool:
    return all(len(part) == 1 and part.isalpha() for part in joined.split("."))


def _without_commas(text: str) -> str:
    return _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text) if "," in text else text


def _kept(piece: str) -> list[int]:
    """Return the places of all characters of a piece except control characters and commas between thousands."""
    plain = piece.translate(NO_CONTROLS)
    commas = {at for number in _THOUSANDS.finditer(plain) for at in range(*number.span()) if plain[at] == ","}
    kept = [at for at, character in enumerate(piece) if character not in CONTROLS]
    return [at for place, at in enumerate(kept) if place not in commas]
