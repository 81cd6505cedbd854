r"""Escaping: names and texts of others, such as names of files, on a terminal that obeys some of their characters.

A control character can change the terminal's title, colours or lines, or hide what stands before it; the marks of
bidirectional text let a name look like another one. Each is shown as Python writes it: ``\x1b``, ``\u202e``.
"""

from __future__ import annotations

import re

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""A character that controls a terminal, or that no encoding has."""


def escaped(text: str, *, keep: str = "") -> str:
    """Return a text in one line whose control characters are escaped, except those in ``keep``."""
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def escaped_json(text: str) -> str:
    """Return JSON in one line with the same value, in which no control character stands as it is."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
