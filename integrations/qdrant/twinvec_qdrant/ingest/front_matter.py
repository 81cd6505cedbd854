"""Front matter: the YAML block at the top of a Markdown file, which describes the text and does not belong to it."""

from __future__ import annotations

import json
from typing import Any

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
"""Endings of the names of Markdown files."""

MAX_BYTES = 64 * 1024
"""Largest front matter that is parsed; parsing a large YAML block takes long."""

MAX_DEPTH = 20
"""How deep the lists and mappings of a front matter may be nested."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the front matter's values as plain JSON (dates as strings, sets as lists), and the text below it.

    A block that is not a YAML mapping, exceeds ``MAX_BYTES`` or ``MAX_DEPTH``, or has aliases stays part of the text: a
    few lines of aliases can expand to gigabytes.
    """
    if not text.startswith("---"):
        return {}, text
    from frontmatter.default_handlers import YAMLHandler

    handler = YAMLHandler()
    try:
        block, body = handler.split(text)
        if len(block.encode()) > MAX_BYTES or not _is_plain(block):
            return {}, text
        values = handler.load(block) or {}
        if not isinstance(values, dict):
            return {}, text
        plain: dict[str, Any] = json.loads(json.dumps(values, default=_as_json, skipkeys=True))
    except Exception:  # bad values make YAML's constructors raise AttributeError, OverflowError and others
        return {}, text
    return plain, body.lstrip("\r\n")


def _as_json(value: object) -> object:
    """Return the JSON form of another value; a set is sorted, so that every process gives the same order."""
    return sorted(map(str, value)) if isinstance(value, set) else str(value)


def _is_plain(block: str) -> bool:
    """Return whether the block has no aliases and is not too deep; stop reading at the first offence."""
    import yaml

    depth = 0
    for event in yaml.parse(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True
