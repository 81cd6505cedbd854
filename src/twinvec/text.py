"""The input gate: every public function checks the texts of its caller before it computes anything.

The gate refuses values that are not strings, lone surrogates (UTF-8 cannot encode them) and texts above the size limit.
It accepts the empty text, white space, NUL and every other code point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinvec.errors import TextError

MAX_TEXT_BYTES = 8 * 1024 * 1024
"""Largest text accepted, in bytes of UTF-8."""


def check_text(text: object, where: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Return ``text`` unchanged, or raise TextError, which names it by ``where`` ("text 3", "notes/a.md")."""
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


def is_list(value: object) -> bool:
    """Return whether a value is iterable; a string, bytes, a class and an array without dimensions do not count."""
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes, type)) and getattr(value, "ndim", 1) != 0


def is_table(value: object) -> bool:
    """Return whether a value is a table of pandas, polars or pyarrow."""
    return hasattr(value, "columns")


def check_list(texts: object, argument: str = "texts") -> None:
    """Raise TextError, with a remedy, for a single text, a mapping, a table, a set, or a value that is not iterable.

    The error names ``argument``.
    """
    wrong = f"{argument}: expected a list of strings, got {type(texts).__name__}"
    if isinstance(texts, Mapping):
        raise TextError(f"{wrong}; give its values: list({argument}.values())")
    if is_table(texts):
        column = "table['text'].to_pylist()" if hasattr(texts, "to_pylist") else "list(table['text'])"
        raise TextError(f"{wrong}; give the column of texts: {column}")
    if isinstance(texts, (set, frozenset)):
        raise TextError(f"{wrong}, which has no order; give a list: sorted({argument})")
    if not is_list(texts):
        raise TextError(wrong)


def check_texts(
    texts: Iterable[str], max_bytes: int = MAX_TEXT_BYTES, name: str = "text", argument: str = "texts"
) -> list[str]:
    """Check the list by ``check_list``, and each text by ``check_text`` with ``name`` and its index in the message."""
    check_list(texts, argument)
    return [check_text(text, f"{name} {index}", max_bytes) for index, text in enumerate(texts)]
