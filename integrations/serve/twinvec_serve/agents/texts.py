"""Parts of texts for the tools: lines of a document, the place of a passage, and cuts at a size."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from twinvec.retrieval.base import Hit, body_start, pages_of
from twinvec.retrieval.windows import whole_lines

_PLACE = re.compile(r"(?P<id>.+?)(?::(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?(?:, .*)?|#\d{1,9})", re.DOTALL)
_METADATA_CHARS = 2000
_HEADING_CHARS = 300


class Place(NamedTuple):
    """The id of a document, and its first and last requested line; None for all lines."""

    id: str
    first: int | None = None
    last: int | None = None


class LineRange(NamedTuple):
    """The requested lines of a document: the first and the last, and the first character of the first line.

    Lines and characters are counted from 1. None stands for the beginning or the end.
    """

    first: int | None = None
    last: int | None = None
    char: int | None = None


def parse_place(text: str) -> Place | None:
    """Parse ``id:12``, ``id:12-15`` or ``id#3`` (a chunk), also with the page and heading of ``place_of``."""
    match = _PLACE.fullmatch(text)
    if match is None:
        return None
    first = int(match["first"]) if match["first"] else None
    return Place(match["id"], first, int(match["last"]) if match["last"] else first)


def passage_of(hit: Hit) -> str:
    """Return the text of a hit without the headings that chunking has put before the text."""
    return hit.text[body_start(hit) :].strip()


def lines_of(hit: Hit, text: str) -> tuple[int, int] | None:
    """Return the first and last line of a hit's passage in its document, from 1; None unless the passage occurs once.

    ``text`` is the stored document: its chunks, each below its heading.
    """
    found = whole_lines(text, hit.text)
    if len(found) != 1:
        return None
    passage = passage_of(hit)
    first = text.count("\n", 0, found[0] + hit.text.index(passage, body_start(hit))) + 1
    return first, first + passage.count("\n")


def place_of(hit: Hit, lines: tuple[int, int] | None) -> str:
    """Return the place of a hit's text, such as ``guides/tls.md:12-15, page 3, Certificates > Renewal``."""
    place = hit.id
    if lines is not None:
        first, last = lines
        place += f":{first}" if first == last else f":{first}-{last}"
    pages, heading = pages_of(hit, body_start(hit), len(hit.text)), hit.payload.get("heading")
    on = "" if pages is None else f"page {pages[0]}" if pages[0] == pages[1] else f"pages {pages[0]}-{pages[1]}"
    parts = [place, on, heading[:_HEADING_CHARS] if isinstance(heading, str) else ""]
    return ", ".join(filter(None, parts))


def cut_text(text: str, chars: int) -> tuple[str, bool]:
    """Return the whole lines that fit into ``chars`` characters, and False.

    If the first line does not fit, return its beginning and True.
    """
    if len(text) <= chars:
        return text, False
    end = text.rfind("\n", 0, chars + 1)
    return (text[:chars], True) if end < 0 else (text[:end], False)


def metadata_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of a payload that fit into the limit of size."""
    shown, left = {}, _METADATA_CHARS
    for key, value in payload.items():
        size = len(key) + len(json.dumps(value, ensure_ascii=False, default=str))
        if size <= left:
            shown[key] = value
            left -= size
    return shown
