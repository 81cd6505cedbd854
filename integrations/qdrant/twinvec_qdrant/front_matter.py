"""Front matter: the YAML block with which a Markdown file may begin says things about the text and is no part of it."""

from __future__ import annotations

import json
from typing import Any


def split_front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The values of a front matter, as JSON has them, dates as strings, and the text below it.

    What begins like one and is no YAML mapping, or one with aliases, which a few lines can make into gigabytes,
    is text.
    """
    if not text.startswith("---"):
        return {}, text
    import yaml
    from frontmatter.default_handlers import YAMLHandler

    handler = YAMLHandler()
    try:
        block, body = handler.split(text)
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(block)):
            return {}, text
        values = handler.load(block) or {}
    except (ValueError, RecursionError, yaml.YAMLError):
        return {}, text
    if not isinstance(values, dict):
        return {}, text
    plain: dict[str, Any] = json.loads(json.dumps(values, default=str, skipkeys=True))
    return plain, body.lstrip("\r\n")
