"""Filters as written on a command line, such as ``year>=2020``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    pass


_CONDITION = re.compile(r"(?P<key>[^=<>]+?)\s*(?P<operator>=|>=|<=|>|<)\s*(?P<value>.*)", re.DOTALL)


_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


_MEANT = {"=": "=", ">": ">=", "<": "<="}  # by what follows "="


def _filter(conditions: Sequence[str]) -> dict[str, Any]:
    """``["lang=en", "lang=de", "year>=2020"]`` -> ``{"lang": ["en", "de"], "year": {"gte": 2020}}``."""
    wanted: dict[str, Any] = {}
    for condition in conditions:
        match = _CONDITION.fullmatch(condition.strip())
        if match is None:
            raise typer.BadParameter(f"--filter {condition!r}: expected KEY=VALUE, or >=, <=, >, < in place of =")
        key, value = match["key"], _value(match["value"])
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
            raise typer.BadParameter(f"--filter {condition!r}: {key} is compared by = and by order; use one of them")
    return wanted


def _check_equal(condition: str, key: str, value: str) -> None:
    """Refuse what looks like another operator, and would ask for a strange key or value."""
    if key.endswith("!"):
        raise typer.BadParameter(f"--filter {condition!r}: there is no !=; list what is wanted, KEY=VALUE for each")
    if meant := _MEANT.get(value[:1]):
        quoted = json.dumps(value, ensure_ascii=False)
        raise typer.BadParameter(
            f"--filter {condition!r}: there is no ={value[0]}; write {key}{meant}{value[1:].lstrip()}, "
            f"or, for that very text, '{key}={quoted}'"
        )


def _value(text: str) -> Any:
    """A number, true or false where it reads as one, else the text; a quoted text is a text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, (str, int, float, bool)) else text
