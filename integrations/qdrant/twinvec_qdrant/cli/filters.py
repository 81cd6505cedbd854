"""Filters as a command line writes them, such as ``year>=2020``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import typer

_CONDITION = re.compile(r"(?P<key>[^=<>]+?)\s*(?P<operator>=|>=|<=|>|<)\s*(?P<value>.*)", re.DOTALL)
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_MEANT = {"=": "=", ">": ">=", "<": "<="}  # by the character that follows "="


def parse_filter_options(conditions: Sequence[str]) -> dict[str, Any]:
    """Return the filter that the conditions state together.

    ``["lang=en", "lang=de", "year>=2020"]`` gives ``{"lang": ["en", "de"], "year": {"gte": 2020}}``.
    """
    wanted: dict[str, Any] = {}
    for condition in conditions:
        match = _CONDITION.fullmatch(condition.strip())
        if match is None:
            raise typer.BadParameter(f"--filter {condition!r}: expected KEY=VALUE, or >=, <=, >, < in place of =")
        key, value = match["key"], _parsed(match["value"])
        if match["operator"] == "=":
            _check_equal(condition, key, match["value"])
            known = wanted.setdefault(key, [])
            fits = isinstance(known, list)
            if fits:
                known.append(value)
        else:
            known = wanted.setdefault(key, {})
            fits = isinstance(known, dict)
            if fits:
                known[_BOUNDS[match["operator"]]] = value
        if not fits:
            raise typer.BadParameter(f"--filter {condition!r}: {key} has both = and a bound; give one of them")
    return wanted


def _check_equal(condition: str, key: str, value: str) -> None:
    """Refuse ``!=``, ``==``, ``=>`` and ``=<``, which would name a strange key or value."""
    if key.endswith("!"):
        raise typer.BadParameter(f"--filter {condition!r}: != is not supported; give KEY=VALUE for each wanted value")
    if meant := _MEANT.get(value[:1]):
        quoted = json.dumps(value, ensure_ascii=False)
        raise typer.BadParameter(
            f"--filter {condition!r}: ={value[0]} is not an operator; write {key}{meant}{value[1:].lstrip()}, "
            f"or '{key}={quoted}' for that exact text"
        )


def _parsed(text: str) -> Any:
    """Return the number, the boolean or the quoted text that JSON reads, else the text itself."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, int, float, bool)) else text
