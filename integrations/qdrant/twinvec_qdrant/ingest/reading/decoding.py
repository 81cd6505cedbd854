"""Decoding: the bytes of a text file -> text.

UTF-8, and UTF-16 and UTF-32 with a byte order mark, are recognised exactly. For all else charset-normalizer ranks the
encodings that are in use. A short text fits many of them equally well; then the first of ``_IN_USE`` is taken.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable

from twinvec.errors import DocumentError

_IN_USE = (
    *("cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp866", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
_MARKS = {  # those of UTF-32 first: one of them begins with a mark of UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_CONTROLS = bytes(set(range(32)) - set(b"\b\t\n\v\f\r\x1b"))  # control characters that no text has
_DATA_URI = re.compile(r"(data:[\w.+-]+/[\w.+-]+(?:;[\w.=+-]+)*;base64),[A-Za-z0-9+/=_-]{100,}")
_ESCAPE = re.compile(  # ECMA-48, as terminals read it: of 7 bits, and without line ends
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # a control sequence, such as a colour or a place of the cursor
    r"|[\]PX^_][^\x07\x1b\r\n]*(?:\x07|\x1b\\)"  # a control string, such as the title of the window
    r"|[ -/]*[0-~]"  # every other function, such as a set of characters
    r")"
)
_SAMPLE = 64 * 1024  # bytes of lines that are not ASCII: more of them make no better guess


def without_data_uris(markdown: str) -> str:
    """Return Markdown without the bytes of the images in it: ``data:image/png;base64...``, as markitdown writes it."""
    return _DATA_URI.sub(r"\1...", markdown)


def without_escapes(text: str) -> str:
    """Return a text without the escape sequences of terminals, such as ``\\x1b[36m``; its lines stay as they are."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def decode(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and the name of its encoding if that is a guess, else "".

    Raises:
        DocumentError: a binary file, or an encoding that is not known.
    """
    encoding, guessed = find_encoding(lambda: [data])
    try:
        return data.decode(encoding), encoding if guessed else ""
    except UnicodeDecodeError as error:
        raise _unknown(error) from error


def find_encoding(blocks: Callable[[], Iterable[bytes]]) -> tuple[str, bool]:
    """Return the encoding of a text, and whether it is a guess; ``blocks`` opens the text to be read once more.

    Errors as for ``decode``.
    """
    encoding, decoder = "", _decoder("utf-8-sig")
    try:
        for block in blocks():
            if not encoding:
                _check_not_compressed(block)
                encoding = next((name for mark, name in _MARKS.items() if block.startswith(mark)), "utf-8-sig")
                decoder = _decoder(encoding)
            if encoding == "utf-8-sig" and b"\0" in block:
                raise DocumentError("a binary file (it holds NUL bytes) of a format that cannot be converted")
            decoder.decode(block)
        decoder.decode(b"", final=True)
        return encoding or "utf-8-sig", False
    except UnicodeDecodeError as error:
        if encoding == "utf-8-sig" and (guess := _guess(blocks)):
            return guess, True
        raise _unknown(error) from error


def _check_not_compressed(block: bytes) -> None:
    kind = next((name for mark, name in _COMPRESSED.items() if block.startswith(mark)), None)
    if kind:
        raise DocumentError(f"compressed with {kind}; decompress it, and ingest what it holds")


def _decoder(encoding: str) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder(encoding)()


def _unknown(error: UnicodeDecodeError) -> DocumentError:
    return DocumentError(
        "neither text in an encoding that is in use nor a format that can be converted: byte "
        f"0x{error.object[error.start]:02x} at {error.start}"
    )


def _guess(blocks: Callable[[], Iterable[bytes]]) -> str | None:
    """Return the likeliest encoding that can decode everything; None for a binary file."""
    decoders = {name: _decoder(name) for name in _IN_USE}
    sample: list[bytes] = []
    room = _SAMPLE
    for block in blocks():
        if len(block.translate(None, _CONTROLS)) < len(block):
            return None
        decoders = {name: decoder for name, decoder in decoders.items() if _decodes(decoder, block)}
        for line in block.splitlines() if room > 0 and not block.isascii() else ():
            if room > 0 and not line.isascii():
                sample.append(line[:room])
                room -= len(line)
    decoders = {name: decoder for name, decoder in decoders.items() if _decodes(decoder, b"", final=True)}
    return _likeliest(b"\n".join(sample), list(decoders)) if decoders else None


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def _likeliest(sample: bytes, candidates: list[str]) -> str | None:
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=candidates, preemptive_behaviour=False)
    best = matches.best()
    if best is None:
        return None
    equal = [each for each in matches if (each.chaos, each.coherence) == (best.chaos, best.coherence)]
    names = {name for each in equal for name in each.could_be_from_charset}
    return next((name for name in candidates if name in names), best.encoding)
