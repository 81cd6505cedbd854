"""Front matter: the YAML block with which a Markdown file may begin says things about the text and is no part of it."""

from __future__ import annotations

import json
from typing import Any

MAX_BYTES = 64 * 1024
"""Largest front matter; YAML takes long where it is large."""

MAX_DEPTH = 20
"""How deep its lists and mappings may lie in one another."""


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The values of a front matter, as JSON has them, dates as strings and sets as lists, and the text below it.

    What begins like one and is no YAML mapping is text, and so is one that takes long or becomes large: one beyond
    ``MAX_BYTES`` or ``MAX_DEPTH``, or with aliases, of which a few lines can become gigabytes.
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
    except Exception:  # a bad value ends YAML's constructors with an AttributeError, an OverflowError, ...
        return {}, text
    return plain, body.lstrip("\r\n")


def _as_json(value: object) -> object:
    """A value that JSON does not have; a set in the same order in every process."""
    return sorted(map(str, value)) if isinstance(value, set) else str(value)


def _is_plain(block: str) -> bool:
    """Whether the block has no aliases and is not too deep; of one that is, no more is read than shows it."""
    import yaml

    depth = 0
    for event in yaml.parse(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True
