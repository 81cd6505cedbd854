"""Generated files: recognise source maps and minified code, which only repeat what other files hold."""

from __future__ import annotations

import json

_SOURCE_MAP = ".map"
_SCRIPTS_AND_STYLES = frozenset({".cjs", ".css", ".js", ".mjs"})
_MEAN_LINE = (
    110  # characters; GitHub Linguist calls a script or style sheet minified if its lines are longer on average
)
_LONG_LINE = 2_000  # characters; files of long sentences, such as translations, have no line as long


def generated_kind(text: str, suffix: str, version: int) -> str:
    """Return which kind of generated file this is, "source map" or "minified file"; else "".

    Args:
        text: The text of the file.
        suffix: The ending of its name, in lower case.
        version: The reading version; older versions read generated files as text.
    """
    if suffix == _SOURCE_MAP and version > 6 and _is_source_map(text):
        return "source map"
    return "minified file" if suffix in _SCRIPTS_AND_STYLES and version > 7 and _is_minified(text) else ""


def _is_source_map(text: str) -> bool:
    """Return whether a text is a source map (ECMA-426): the places of the parts of a generated file in its sources."""
    if text.startswith(")]}'"):  # a line that keeps browsers from running the file
        _, _, text = text.partition("\n")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "version" in found and ("mappings" in found or "sections" in found)


def _is_minified(text: str) -> bool:
    """Return whether the lines of a script or style sheet are as long as those of minified code or a search index."""
    lengths = [len(line) for line in text.splitlines()]
    return max(lengths, default=0) >= _LONG_LINE and sum(lengths) > _MEAN_LINE * len(lengths)
