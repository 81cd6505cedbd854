"""Decoding: the bytes of a text file -> text.

UTF-8, and UTF-16 and UTF-32 with a byte order mark, are recognised exactly. For other texts, chardet ranks the
encodings that are in use, and the first one that gives plausible words counts. If a text has only signs and letters
that are usual in Windows-1252, at their usual places (``_WESTERN``), it counts as Windows-1252 without a ranking. A
text that resembles no language fails. Versions 1 to 8 guess in another way (``encodings.older_guesses``).

Reading version 5 differs in two more cases:

- A text that is UTF-8 except for a few bytes counts as UTF-8; U+FFFD replaces these bytes.
- A web page or e-mail that states its encoding is read as browsers read it (WHATWG, Encoding Standard).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from twinvec.errors import DocumentError
from twinvec_qdrant.ingest.reading.encodings.older_guesses import IN_USE_OF_VERSION_8, guess_of_version_8
from twinvec_qdrant.settings import NEWEST_READING

_USUAL = "cp1252"
_IN_USE = (  # of Windows, of DOS, of the Macintosh, of Unix, and of East Asia
    *(_USUAL, "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp874"),
    *("cp437", "cp850", "cp852", "cp857", "cp865", "cp866", "cp1125"),
    *("mac_roman", "mac_latin2", "mac_cyrillic"),
    *("iso8859_2", "iso8859_5", "iso8859_7", "koi8_r", "koi8_u"),
    *("cp932", "euc_jis_2004", "gb18030", "big5hkscs", "cp949"),
)
_MARKS = {  # byte order marks; UTF-32 comes first, because one of its marks begins with a mark of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_AS_BROWSERS = {  # Python's name of an encoding -> the larger encoding that browsers use instead
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-11": "cp874",
    "iso8859-9": "cp1254",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
_BEGINNINGS = {  # first bytes of pages that have no byte order mark (XML 1.0, appendix F)
    b"<\0\0\0": "utf-32-le",
    b"\0\0\0<": "utf-32-be",
    b"<\0": "utf-16-le",
    b"\0<": "utf-16-be",
}
_LATIN_1 = ("ascii", "iso8859-1")  # browsers read these as Windows-1252, and its unassigned bytes as control characters
# surrogate of a byte to which Windows-1252 assigns no character -> the byte
_UNASSIGNED = {0xDC00 + byte: byte for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}
# Python's own codecs, in which no file is written
_NOT_OF_TEXTS = frozenset({"idna", "punycode", "raw-unicode-escape", "unicode-escape", "undefined"})
# encodings that write text with ASCII bytes only, so that the text is also valid UTF-8
_SEVEN_BITS = ("iso-2022-", "hz-")
_PDF = b"%PDF-"
_LETTERS = "ÁÂÄÇÉËÍÎÓÔÖÚÜßáâäçéëíîóôöúü"  # letters that are the same bytes in Windows-1250 and Windows-1252
_WESTERN = re.compile(
    # one or two such letters in a word with ASCII letters, or one as a word of its own
    rf"(?<![{_LETTERS}])(?:(?<=[A-Za-z])[{_LETTERS}]{{1,2}}(?![{_LETTERS}])|[{_LETTERS}]{{1,2}}(?=[A-Za-z])"
    rf"|(?<![A-Za-z])[{_LETTERS}](?![{_LETTERS}]))"
    # quotation marks and dashes: within a word, DOS and the Macintosh have letters at their bytes
    r"|(?<![A-Za-z])[‘’‚“”„«»–—•…](?![A-Za-z])|(?<![A-Za-z])[‘‚“„«](?=[A-Za-z])|(?<=[A-Za-z])[‘’“”»…](?![A-Za-z])"
    r"|(?<=[A-Za-z])’(?=(?:d|ll|m|re|s|t|ve)\b)|(?<=\b[cdjlmnst])’(?=[A-Za-z])"
    r"|\xa0(?![A-Za-z])|(?<![A-Za-z])\xa0|©|(?<![A-Za-z])[§µ€£¼½¾×](?![A-Za-z])|(?<=[\dnN\s])°|(?<=[\s\d])±(?=[\s\d])|^±(?=\d)"
    r"|(?<=[\dm])[²³]|[®™](?![A-Za-z])|(?<=[\s\d])µ(?=[A-Za-z])"
)
_MISREAD = re.compile(
    r"(?<=[^\W\d_])[\xa1-\xac\xae-\xb6\xb8-\xbf×÷ˆ˜\u201a-\u2025\u2027-\u2bff](?=[^\W\d_])"  # a sign in a word
    r"|[£¤¥¦¨¬¯´¸¼½¾](?=[^\W\d_])|(?<=[^\W\d_])[¡¤¥¦¨¬¯´¶¸¼½¾¿]"  # a sign that begins or ends a word
    r"|(?<=[A-Za-z])[^\W\d_\0-\u024f](?=[A-Za-z])"  # a letter of another script in a Latin word
)
_BEHIND_SMALL = re.compile(r"(?<=[a-z])[^\W\d_A-Za-z]")
_CONTROL = re.compile("[\x80-\x9f]")
_MOST_MISREAD = 0.2  # of the characters that are not ASCII, in a text whose encoding is right
# chardet's confidence in texts of a language is 0.05 or more, and in random bytes less than 0.03. If only few
# characters are not ASCII, a low confidence says nothing.
_LEAST_CONFIDENCE = 0.03
_FEW, _FEW_IN_BYTES = 10, 0.1  # number of such characters, and their share in the bytes of the lines that have any
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))  # control characters that no text has
_DATA_URI = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w.=+-]+)*;base64),[A-Za-z0-9+/=_-]{100,}")
_ESCAPE = re.compile(  # ECMA-48 as terminals read it: 7-bit codes without line ends
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # a control sequence, such as a colour or a cursor position
    r"|[\]PX^_][^\x07\x1b\r\n]*(?:\x07|\x1b\\)"  # a control string, such as the title of the window
    r"|[ -/]*[0-~]"  # any other function, such as the choice of a character set
    r")"
)
_SAMPLE = 64 * 1024  # bytes of lines that are not ASCII; more bytes would not improve the guess
_UTF_8 = "utf-8-sig"
_REPLACEMENT = "\ufffd"
# valid characters of several bytes for each broken character: texts in other encodings have less than one; web pages,
# and reading versions 1 to 8, need more
_WHOLE_FOR_BROKEN, _MORE_FOR_BROKEN = 3, 10
_WHOLE_FOR_CUT = 3  # least number of valid characters of several bytes
_BINARY = "a binary file (it holds NUL bytes) of a format that cannot be converted"


class Encoding(NamedTuple):
    """An encoding, Python's ``errors`` argument for decoding by it, and whether the encoding is a guess."""

    name: str
    errors: str = "strict"
    is_guess: bool = False


def without_data_uris(markdown: str) -> str:
    """Return Markdown with shortened image data: ``data:image/png;base64...``, as markitdown writes it."""
    return _DATA_URI.sub(r"\1...", markdown)


def without_escapes(text: str) -> str:
    """Return a text without the escape sequences of terminals, such as ``\\x1b[36m``; its lines stay as they are."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def decode(data: bytes, version: int = NEWEST_READING) -> tuple[str, str]:
    """Return the text of a file, and the name of its encoding if the encoding is a guess, else "".

    Raises:
        DocumentError: the file is binary, or no known encoding fits.
    """
    found = find_encoding(lambda: [data], version)
    try:
        text = data.decode(found.name, found.errors)
    except UnicodeDecodeError as error:
        raise _unknown(error, error.start) from error
    return text, found.name.removesuffix("-sig") if found.is_guess else ""


def decode_as_stated(data: bytes, encoding: str) -> str | None:
    """Return the text of a web page or e-mail by its stated encoding; None if the bytes do not fit the encoding.

    Like browsers, read ISO 8859-1 as Windows-1252, which also has quotation marks, dashes and the euro sign.
    """
    try:
        stated = codecs.lookup(encoding).name
    except (LookupError, ValueError):  # ValueError: the name contains NUL
        return None
    if stated in _NOT_OF_TEXTS:
        return None
    utf_8 = ("utf-8",) if stated == "ascii" else ()
    errors = "surrogateescape" if stated in _LATIN_1 else "strict"
    for name in (*utf_8, _AS_BROWSERS.get(stated, stated), stated):
        try:
            return data.decode(name, errors if name == _USUAL else "strict").translate(_UNASSIGNED)
        except (LookupError, UnicodeError):  # LookupError: "hex", for example, does not encode texts
            continue
    return None


def decode_page(data: bytes, stated: str) -> str | None:
    """Return the text of a web page, from Unicode or the ``stated`` encoding ("" for none); None if neither fits.

    Unicode is tried first: pages that were converted to UTF-8 often still state their former encoding.

    Raises:
        DocumentError: the file is binary.
    """
    check_not_compressed(data)
    if unmarked := next((name for mark, name in _BEGINNINGS.items() if data.startswith(mark)), None):
        return data.decode(unmarked, "replace")
    if data.startswith(_PDF):
        raise DocumentError("a PDF, and not a web page; rename it, so that its name ends with .pdf")
    if not _marked(data) and b"\0" in data:
        raise DocumentError(_BINARY)
    text = None if stated.startswith(_SEVEN_BITS) else _of_unicode(data)
    if text is None:
        text = decode_as_stated(data, stated)
    if text is None and (_has_controls(data) or is_utf_8(data)):
        return decode(data)[0]
    return text


def find_encoding(blocks: Callable[[], Iterable[bytes]], version: int) -> Encoding:
    """Return the encoding of a text; each call of ``blocks`` yields the text again, in blocks of bytes.

    Raises the errors of ``decode``.
    """
    encoding, decoder, size = "", _decoder(_UTF_8), 0
    try:
        for block in blocks():
            if not encoding:
                check_not_compressed(block)
                encoding = _marked(block) or _UTF_8
                decoder = _decoder(encoding)
            if encoding == _UTF_8 and b"\0" in block:
                raise DocumentError(_BINARY)
            size += len(block)
            decoder.decode(block)
        decoder.decode(b"", final=True)
        return Encoding(encoding or _UTF_8)
    except UnicodeDecodeError as error:
        if encoding == _UTF_8 and version > 4 and _is_nearly_utf_8(blocks, version):
            return Encoding(_UTF_8, "replace", is_guess=True)
        if encoding == _UTF_8 and (guess := _guess(blocks, version)):
            return Encoding(guess, is_guess=True)
        raise _unknown(error, size - len(error.object) + error.start) from error


def check_not_compressed(data: bytes) -> None:
    """Raise ``DocumentError`` if a file begins like a compressed file."""
    kind = next((name for mark, name in _COMPRESSED.items() if data.startswith(mark)), None)
    if kind:
        raise DocumentError(f"compressed with {kind}; decompress it, and ingest its content")


def check_not_binary(text: str) -> None:
    """Raise ``DocumentError`` if a text has NUL characters."""
    if "\0" in text:
        raise DocumentError(_BINARY)


def _marked(data: bytes) -> str | None:
    return next((name for mark, name in _MARKS.items() if data.startswith(mark)), None)


def _of_unicode(data: bytes) -> str | None:
    """Return the text of data in Unicode, perhaps with a few wrong bytes in UTF-8; None for other data."""
    if _marked(data):
        return decode(data)[0]
    try:
        return data.decode(_UTF_8)
    except UnicodeDecodeError:
        return data.decode(_UTF_8, "replace") if _is_nearly_utf_8(lambda: [data], 8) else None


def is_utf_8(data: bytes) -> bool:
    """Return whether data is UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_nearly_utf_8(blocks: Callable[[], Iterable[bytes]], version: int) -> bool:
    """Return whether a text is UTF-8 except for few wrong bytes or a cut end, and has characters of several bytes."""
    decoder = _decoder(_UTF_8, "replace")
    broken = whole = 0
    for block in blocks():
        if _has_controls(block):
            return False
        text = decoder.decode(block)
        wrong = text.count(_REPLACEMENT) - block.count(_REPLACEMENT.encode())
        broken += wrong
        whole += len(text) - len(text.encode("ascii", "ignore")) - wrong
    # a character that the end cuts off stays in the decoder, and is not counted
    least = _WHOLE_FOR_BROKEN if version > 8 else _MORE_FOR_BROKEN
    return whole >= max(broken * least, _WHOLE_FOR_CUT)


def _decoder(encoding: str, errors: str = "strict") -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder(encoding)(errors)


def _unknown(error: UnicodeDecodeError, place: int) -> DocumentError:
    return DocumentError(
        f"not text in a known encoding (byte 0x{error.object[error.start]:02x} at {place}), and not a format that can "
        "be converted; save the text as UTF-8, or exclude the file"
    )


def _has_controls(block: bytes) -> bool:
    return len(block.translate(None, _CONTROLS)) < len(block)


def _guess(blocks: Callable[[], Iterable[bytes]], version: int) -> str | None:
    """Return the likeliest encoding that can decode the whole text; None for a binary file."""
    decoders = {name: _decoder(name) for name in (_IN_USE if version > 8 else IN_USE_OF_VERSION_8)}
    sample: list[bytes] = []
    room = _SAMPLE
    for block in blocks():
        if _has_controls(block):
            return None
        decoders = {name: decoder for name, decoder in decoders.items() if _decodes(decoder, block)}
        for line in block.splitlines() if room > 0 and not block.isascii() else ():
            if room > 0 and not line.isascii():
                sample.append(line[:room])
                room -= len(line)
    left = [name for name, decoder in decoders.items() if _decodes(decoder, b"", final=True)]
    if not left:
        return None
    if version < 9:
        return guess_of_version_8(b"\n".join(sample), left, version)
    return _likeliest(b"\n".join(sample), left)


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def _likeliest(sample: bytes, candidates: Collection[str]) -> str | None:
    """Return the likeliest of these encodings; None if the lines resemble no text in any of them."""
    from chardet import detect_all

    if _USUAL in candidates and _WESTERN.sub("", sample.decode(_USUAL, "replace")).isascii():
        return _USUAL
    wanted = [name.replace("_", "-") for name in candidates]
    is_sparse = sum(map((127).__lt__, sample)) <= max(_FEW, len(sample) * _FEW_IN_BYTES)
    weak: list[str] = []
    for each in detect_all(sample, ignore_threshold=True, include_encodings=wanted, compat_names=False):
        name = (each["encoding"] or "").replace("-", "_")
        if name in candidates and _is_plausible(sample.decode(name, "replace")):
            if each["confidence"] >= _LEAST_CONFIDENCE:
                return name
            weak.append(name)
    if not is_sparse:
        return None
    return _USUAL if _USUAL in weak else next(iter(weak), None)


def _is_plausible(text: str) -> bool:
    """Return whether a decoded text looks right.

    A text in a wrong encoding has signs within words, letters of two scripts in a word, or capitals behind small
    letters. A few of these are permitted, because a text in the right encoding may have them too.
    """
    if _CONTROL.search(text):
        return False
    capitals = [each for each in _BEHIND_SMALL.findall(text) if each.isupper()]
    misread = len(_MISREAD.findall(text)) + len(capitals)
    return misread <= _MOST_MISREAD * (len(text) - len(text.encode("ascii", "ignore")))
