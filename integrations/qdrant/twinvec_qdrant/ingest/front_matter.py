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
    """The values of the front matter as plain JSON, and the text below it. Dates become strings, and sets lists.

    A block that is not a YAML mapping stays part of the text. So does a block beyond ``MAX_BYTES`` or ``MAX_DEPTH``,
    or one with aliases, because a few lines of aliases can expand to gigabytes.
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
    """The JSON form of another value; a set is sorted, so that every process gives the same order."""
    return sorted(map(str, value)) if isinstance(value, set) else str(value)


def _is_plain(block: str) -> bool:
    """Whether the block has no aliases and is not too deep; reading stops at the first one that breaks this rule."""
    import yaml

    depth = 0
    for event in yaml.parse(block, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or isinstance(event, yaml.AliasEvent):
            return False
    return True
