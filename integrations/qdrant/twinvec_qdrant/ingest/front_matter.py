"""Front matter: the block at the top of a Markdown file, which describes the text and does not belong to it.

The block is YAML between lines of "---", or TOML between lines of "+++", as Hugo writes it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from datetime import date, time
from functools import cache
from typing import Any

from twinvec.errors import DocumentError
from twinvec.interrupts import raise_of_handler
from twinvec.retrieval.documents import is_deeper, parse_json

MAX_BYTES = 64 * 1024
"""Size of the largest front matter that is parsed, because a large YAML block takes long to parse."""

MAX_DEPTH = 20
"""Largest depth of nested lists and mappings in a front matter."""

_TOO_LARGE = f"more than the limit of {MAX_BYTES:,} bytes"
_TOO_DEEP = f"more than {MAX_DEPTH} levels"
# largest number of dots in a line: tomllib's time grows with the square of the number of dots in a key
_MOST_DOTS = 500
_TOML_RULE = re.compile(r"^\+{3,}\s*$", re.MULTILINE)
_PLAIN_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "float", "int", "timestamp")}
_TOML_LINE = re.compile(r"(.*) \(at line (\d+), column \d+\)", re.DOTALL)


def split_front_matter(
    text: str, tell: Callable[[str], None] | None = None, *, toml: bool = False, newest: bool = False
) -> tuple[dict[str, Any], str]:
    """Return the front matter's values as plain JSON (dates as strings, sets as lists), and the text below it.

    A block stays part of the text if it is not a YAML mapping, exceeds ``MAX_BYTES`` or ``MAX_DEPTH``, has NaN or an
    infinity, or has aliases: a few lines of aliases can expand to gigabytes. With ``toml``, a block between lines of
    "+++" is read as TOML, with the same limits. If a block stays, ``tell`` is called with the line and the reason.
    ``tell`` is not called for prose between two horizontal rules: a block that begins with a blank line, or that is
    valid YAML but not a mapping.

    With ``newest``, a "T" separates date and time, and keys of YAML stay as they are written. Without it, a space
    separates them, YAML's keys that are dates are left out, and keys that are numbers or truth values are spelt as in
    JSON: "true" for yes.
    """
    is_toml = toml and _TOML_RULE.match(text) is not None
    if not is_toml and not text.startswith("---"):
        return {}, text
    from frontmatter.default_handlers import BaseHandler, YAMLHandler

    try:
        block, body = (BaseHandler(_TOML_RULE) if is_toml else YAMLHandler()).split(text)
    except ValueError:  # the block has no closing line
        return {}, text
    try:
        as_json = _as_iso if newest else _as_json
        values = _toml_values(block, as_json) if is_toml else _yaml_values(block, as_json, keys_as_written=newest)
    except Exception as error:  # bad values make YAML's constructors raise AttributeError, OverflowError and others
        raise_of_handler(error)
        if tell is not None and text.split("\n", 2)[1].strip():
            first = text.count("\n", 0, text.index(block)) + 1
            tell(_toml_reason(error, first) if is_toml else _yaml_reason(error, first, block))
        return {}, text
    return ({}, text) if values is None else (values, body.lstrip("\r\n"))


def _toml_values(block: str, as_json: Callable[[object], object]) -> dict[str, Any]:
    """Return the values of a block of TOML; ``as_json`` converts the values that JSON lacks, such as dates."""
    if len(block.encode()) > MAX_BYTES:
        raise DocumentError(_TOO_LARGE)
    if any(line.count(".") > _MOST_DOTS for line in block.splitlines()):
        raise DocumentError(_TOO_DEEP)
    try:
        values = tomllib.loads(block)
    except RecursionError as error:
        raise DocumentError(_TOO_DEEP) from error
    if is_deeper(values, MAX_DEPTH - 1):  # the block itself is one level
        raise DocumentError(_TOO_DEEP)
    plain: dict[str, Any] = parse_json(json.dumps(values, default=as_json))
    return plain


def _toml_reason(error: Exception, first: int) -> str:
    """Return the reason why a block of TOML cannot be read, as ``_yaml_reason`` does for YAML."""
    found = _TOML_LINE.fullmatch(str(error))
    return f"line {first - 1 + int(found[2])}: {found[1]}" if found else str(error)


def _yaml_values(block: str, as_json: Callable[[object], object], *, keys_as_written: bool) -> dict[str, Any] | None:
    """Return the values of a block of YAML, as ``_toml_values`` does; return None if it is not a mapping."""
    import yaml

    if len(block.encode()) > MAX_BYTES:
        raise yaml.YAMLError(_TOO_LARGE)
    _check_plain(block)
    values = yaml.load(block, Loader=_with_keys_as_written() if keys_as_written else _loader()) or {}
    if not isinstance(values, dict):
        return None
    plain: dict[str, Any] = parse_json(json.dumps(values, default=as_json, skipkeys=True))
    return plain


def _loader() -> Any:
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _with_keys_as_written() -> Any:
    """Return a loader that reads keys which are dates, numbers or truth values as strings, as they are written."""
    import yaml

    class Loader(_loader()):  # type: ignore[misc]
        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if key.tag in _PLAIN_TAGS:
                    key.tag = "tag:yaml.org,2002:str"
            return super().construct_mapping(node, deep)

    return Loader


def _as_json(value: object) -> object:
    """Return the JSON form of a value: a sorted list for a set (the same in every process), a string otherwise."""
    return sorted(map(str, value)) if isinstance(value, set) else str(value)


def _as_iso(value: object) -> object:
    return value.isoformat() if isinstance(value, (date, time)) else _as_json(value)


def _check_plain(block: str) -> None:
    """Raise a YAMLError at the first alias of a block, or if its values are nested too deeply."""
    import yaml

    depth = 0
    for event in yaml.parse(block, Loader=_loader()):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise yaml.MarkedYAMLError(problem="aliases (*name) are not supported", problem_mark=mark)
        if depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=_TOO_DEEP, problem_mark=mark)


def _yaml_reason(error: Exception, first: int, block: str) -> str:
    """Return the reason why a block of YAML cannot be read, with the line of the file if it is known.

    The block begins in line ``first`` of the file.
    """
    import yaml

    words = " ".join(str(getattr(error, "problem", None) or error).split())
    is_of_yaml = isinstance(error, yaml.YAMLError)
    mark = getattr(error, "problem_mark", None) if is_of_yaml else _place_of_bad_value(block)
    return words if mark is None else f"line {first + mark.line}: {words}"


def _place_of_bad_value(block: str) -> Any:
    """Return the place of the first value that YAML's constructors refuse, such as the date 2024-02-30, or None."""
    import yaml

    loader = _loader()(block)
    try:
        node = loader.get_single_node()
        for _, value in node.value if isinstance(node, yaml.MappingNode) else ():
            try:
                loader.construct_object(value, deep=True)
            except Exception as error:  # YAML's constructors raise many kinds of errors
                raise_of_handler(error)
                return value.start_mark
    finally:
        loader.dispose()
    return None
