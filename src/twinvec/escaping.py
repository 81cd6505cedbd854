r"""Escape control characters in names and texts from outside, such as names of files, before a terminal shows them.

A control character can change the terminal's title, colours or lines, or hide the text before it. A mark of
bidirectional text can make a name look like another name. Each is shown as Python writes it: ``\x1b``, ``\u202e``.
"""

from __future__ import annotations

import re

CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""A control character, a mark of bidirectional text, or a lone surrogate."""


def escaped(text: str, *, keep: str = "") -> str:
    """Escape the control characters of a text, except those in ``keep``."""
    return CONTROL.sub(lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


def escaped_json(text: str) -> str:
    """Escape the control characters of a JSON text in one line; its value stays the same."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
