"""Subtitles: a SubRip or WebVTT file -> what is said, a line for each line of the subtitles.

Numbers and names of the subtitles, their times and tags, and the comments and styles of WebVTT are left out. The name
of a speaker (``<v Ann>``) stays. A line that repeats the line before, as in captions that roll up, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

SUBTITLES = (".srt", ".vtt")
"""Endings of the names of subtitles; versions 1 to 5 of the reading read them as text with their times."""

_TIME = r"(?:\d+:)?\d{1,2}:\d{2}[.,]\d{1,3}"
_TIMES = re.compile(rf"\s*{_TIME}\s*-->\s*{_TIME}(?:\s.*)?")
_NOT_SAID = re.compile(r"(?:WEBVTT|NOTE|STYLE|REGION)(?:\s.*)?", re.DOTALL)
_SPEAKER = re.compile(r"<v(?:\.[^\s<>]*)?\s([^<>]+)>")
_TAG = re.compile(rf"</?(?:b|c|font|i|lang|ruby|rt|s|u|v)(?:[.\s][^<>]*)?>|<{_TIME}>|\{{\\[^{{}}]*\}}", re.IGNORECASE)
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n\s*")


def text_of_subtitles(text: str) -> str:
    """Return what subtitles say; a text without times is returned unchanged."""
    blocks = [block.split("\n") for block in _BLANK_LINES.split("\n".join(text.splitlines()).strip())]
    if not any(map(_TIMES.fullmatch, (line for block in blocks for line in block))):
        return text
    said: list[str] = []
    for line in (line for block in blocks for line in _said(block)):
        plain = unescape(_TAG.sub("", _SPEAKER.sub(r"\1: ", line))).strip()
        if plain and plain != (said[-1] if said else ""):
            said.append(plain)
    return "\n".join(said)


def _said(block: list[str]) -> Iterator[str]:
    """Yield the lines of a block below its times. A line before times is the number or the name of a subtitle."""
    times = [_TIMES.fullmatch(line) is not None for line in block]
    if True not in times and _NOT_SAID.fullmatch(block[0]):
        return
    for row, line in enumerate(block):
        is_name = row + 1 < len(block) and times[row + 1] and (row == 0 or line.strip().isdecimal())
        if not (times[row] or is_name):
            yield line
