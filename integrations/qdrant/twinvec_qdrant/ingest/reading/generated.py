"""Generated files: recognise source maps, minified code and indexes, which repeat what other files hold."""

from __future__ import annotations

import json
import re
from typing import Any

_SOURCE_MAP, _JSON = ".map", ".json"
_MAIL_INDEX, _MORK = ".msf", "// <!-- <mdb:mork:"  # of a folder of Thunderbird
_SCRIPTS_AND_STYLES = frozenset({".cjs", ".css", ".js", ".mjs"})
_MEAN_LINE = (
    110  # characters; GitHub Linguist calls a script or style sheet minified if its lines are longer on average
)
_INDEX_KEY = re.compile(r'"(?:config|fields)"\s*:')
_INDEX_BEGINNING = 4_096  # characters, among which a search index has one of these keys
_LONG_LINE = 2_000  # characters; files of long sentences, such as translations, have no line as long


def generated_kind(text: str, suffix: str, version: int) -> str:
    """Return which kind of generated file this is, such as "source map"; "" for any other file.

    Args:
        text: The text of the file.
        suffix: The ending of its name, in lower case.
        version: The reading version; older versions read generated files as text.
    """
    if suffix == _SOURCE_MAP and version > 6 and _is_source_map(text):
        return "source map"
    if suffix == _MAIL_INDEX and version > 8 and text.startswith(_MORK):
        return "mail index"
    if suffix == _JSON and version > 8 and _is_search_index(text):
        return "search index"
    return "minified file" if suffix in _SCRIPTS_AND_STYLES and version > 7 and _is_minified(text) else ""


def _is_source_map(text: str) -> bool:
    """Return whether a text is a source map (ECMA-426): the places of the parts of a generated file in its sources."""
    if text.startswith(")]}'"):  # a line that keeps browsers from running the file
        _, _, text = text.partition("\n")
    found = _table(text)
    return "version" in found and ("mappings" in found or "sections" in found)


def _is_search_index(text: str) -> bool:
    """Return whether a text is the search index of a site: of MkDocs, Material for MkDocs or Zensical, or of Lunr."""
    if not _INDEX_KEY.search(text, 0, _INDEX_BEGINNING):
        return False
    found = _table(text)
    pages = found.get("docs", found.get("items"))
    is_of_pages = isinstance(pages, list) and all(isinstance(each, dict) and "location" in each for each in pages)
    return ("config" in found and is_of_pages) or found.keys() >= {"fields", "invertedIndex"}


def _table(text: str) -> dict[str, Any]:
    """Return a JSON object; an empty dict for any other text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _is_minified(text: str) -> bool:
    """Return whether the lines of a script or style sheet are as long as those of minified code or a search index."""
    lengths = [len(line) for line in text.splitlines()]
    return max(lengths, default=0) >= _LONG_LINE and sum(lengths) > _MEAN_LINE * len(lengths)
