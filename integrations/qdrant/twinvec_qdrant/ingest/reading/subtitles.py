"""Subtitles: extract what is said from a SubRip or WebVTT file, by webvtt-py.

Numbers, times, tags, comments and styles are left out. The name of a speaker (``<v Ann>``) stays. A line that repeats
the line before, as in captions that roll up, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from io import StringIO
from typing import Any

from twinvec.support.extras import import_extra

SUBTITLES = (".srt", ".vtt")
"""Endings of the names of subtitles. Reading versions 1 to 5 keep the times in the text."""

_PLACE = re.compile(r"\{\\[^{}]*\}")  # where a subtitle is shown; many SubRip files have it


def text_of_subtitles(text: str, suffix: str) -> str:
    """Return what subtitles say; a text that is not in the format is returned unchanged.

    Raises:
        MissingExtraError: webvtt-py is missing.
    """
    library = import_extra("webvtt", "documents", f"reading {suffix} files", "twinvec-qdrant")
    try:
        captions = library.from_buffer(StringIO(text), format=suffix.removeprefix("."))
    except library.errors.MalformedFileError:
        return text
    said: list[str] = []
    for line in (line for caption in captions for line in _lines(caption)):
        if line and line != (said[-1] if said else ""):
            said.append(line)
    return "\n".join(said)


def _lines(caption: Any) -> Iterator[str]:
    text = f"{caption.voice}: {caption.text}" if caption.voice else caption.text
    for line in _PLACE.sub("", text).splitlines():
        yield unescape(line).strip()
