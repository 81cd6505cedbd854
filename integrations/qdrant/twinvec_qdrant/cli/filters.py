"""Filters as a command line writes them: conditions such as ``year>=2020``, or JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import typer

_CONDITION = re.compile(r"(?P<key>[^=<>]+?)\s*(?P<operator>!=|=|>=|<=|>|<)\s*(?P<value>.*)", re.DOTALL)
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_MEANT = {"=": "=", ">": ">=", "<": "<="}  # by the character that follows "="


def parse_filter_options(conditions: Sequence[str]) -> dict[str, Any]:
    """Return the filter that the conditions state together.

    ``["lang=en", "lang=de", "year>=2020"]`` gives ``{"lang": ["en", "de"], "year": {"gte": 2020}}``. A condition that
    begins with ``{`` is a filter in JSON.
    """
    wanted: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    for condition in map(str.strip, conditions):
        if condition.startswith("{"):
            others.append(_json_filter(condition))
            continue
        match = _CONDITION.fullmatch(condition)
        if match is None:
            raise typer.BadParameter(
                f"--filter {condition!r}: expected KEY=VALUE, or !=, >=, <=, >, < in place of =, or a filter in JSON"
            )
        _check_equal(condition, match)
        if match["operator"] == "!=":
            others.append({match["key"]: {"ne": _parsed(match["value"])}})
        elif not _added(wanted, match):
            raise typer.BadParameter(f"--filter {condition!r}: {match['key']} has both = and a bound; give one of them")
    parts = ([wanted] if wanted else []) + others
    return parts[0] if len(parts) == 1 else {"and": parts} if parts else {}


def _added(wanted: dict[str, Any], match: re.Match[str]) -> bool:
    """Add an equality or a bound to the filter; return whether it fits the others of the same key."""
    key, value = match["key"], _parsed(match["value"])
    if match["operator"] == "=":
        known = wanted.setdefault(key, [])
        if isinstance(known, list):
            known.append(value)
        return isinstance(known, list)
    known = wanted.setdefault(key, {})
    if isinstance(known, dict):
        known[_BOUNDS[match["operator"]]] = value
    return isinstance(known, dict)


def _json_filter(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"--filter {text[:200]!r}: not JSON: {error}") from None
    if not found:
        raise typer.BadParameter("--filter '{}': expected a filter, such as '{\"lang\": \"en\"}'")
    return found


def _check_equal(condition: str, match: re.Match[str]) -> None:
    """Refuse ``==``, ``=>``, ``=<`` and ``!==``, which would name a strange value."""
    key, operator, value = match["key"], match["operator"], match["value"]
    if operator not in ("=", "!=") or not (meant := _MEANT.get(value[:1])):
        return
    meant = operator if operator == "!=" else meant
    quoted = json.dumps(value, ensure_ascii=False)
    raise typer.BadParameter(
        f"--filter {condition!r}: {operator}{value[0]} is not an operator; write {key}{meant}{value[1:].lstrip()}, "
        f"or '{key}{operator}{quoted}' for that exact text"
    )


def _parsed(text: str) -> Any:
    """Return the number, the boolean or the quoted text that JSON reads, else the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, int, float, bool)) else text
