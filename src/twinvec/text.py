"""The input gate: every text is checked once, at the border, before anything is computed from it.

Refused: what is not a string, a lone surrogate (it has no UTF-8), and a text above the size limit. Let through:
the empty text, blanks, NUL and every other code point.
"""

from __future__ import annotations

from collections.abc import Iterable

from twinvec.errors import TextError

MAX_TEXT_BYTES = 8 * 1024 * 1024
"""Largest text accepted, in bytes of UTF-8."""


def check_text(text: object, where: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return ``text`` unchanged if it may go on; ``where`` names it in the error ("text 3", "notes/a.md").

    Raises:
        TextError: ``text`` is not a ``str``, holds a lone surrogate, or is larger than ``max_bytes`` as UTF-8.
    """
    if not isinstance(text, str):
        raise TextError(f"{where}: expected a string, got {type(text).__name__}")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError as error:
        code = ord(text[error.start])
        raise TextError(
            f"{where}: lone surrogate U+{code:04X} at character {error.start}; decode the text "
            "properly, or replace it with U+FFFD"
        ) from None
    if size > max_bytes:
        raise TextError(f"{where}: {size:,} bytes, more than the limit of {max_bytes:,}; split it first")
    return text


def check_texts(texts: Iterable[str], max_bytes: int = MAX_TEXT_BYTES, name: str = "text") -> list[str]:
    """``check_text`` for a list; errors name the index, after ``name``.

    Raises:
        TextError: ``texts`` is a single string or no iterable at all, or one of its texts is refused.
    """
    if isinstance(texts, (str, bytes)) or not hasattr(texts, "__iter__"):
        raise TextError(f"expected a list of strings, got {type(texts).__name__}")
    return [check_text(text, f"{name} {index}", max_bytes) for index, text in enumerate(texts)]
