"""Filters of the command line: parse conditions such as ``year>=2020`` and JSON; give hints if nothing is found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from shlex import quote
from typing import Any, TypeVar

import typer

from twinvec.cli.options import wrong_usage

# KEY=VALUE or KEY!=VALUE that every filter allows: a key without parts, and words, a date or a number of 64 bits
_PLAIN = re.compile(r"[^\W\d]\w*!?=(?:(?!NaN|Infinity)[^\W\d][\w ./-]*|-?\d[\d.-]{0,17})")
_CONDITION = re.compile(r"(?P<key>[^=<>]+?)\s*+(?P<operator>!=|=|>=|<=|>|<)\s*(?P<value>.*)", re.DOTALL)
_BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}
_HOLDS = {"keyword": "texts", "float": "numbers", "integer": "numbers", "bool": "true or false"}
_SHOWN = 10
_MEANT = {"=": "=", ">": ">=", "<": "<="}  # the character after "=" -> the operator that the user probably meant
_Tests = TypeVar("_Tests", list[Any], dict[str, Any])


def parse_filter_options(conditions: Sequence[str]) -> dict[str, Any]:
    """Parse the values of --filter, and join them into one filter.

    ``["lang=en", "lang=de", "year>=2020"]`` gives ``{"lang": ["en", "de"], "year": {"gte": 2020}}``: all conditions
    hold, except that one equality of a key is enough. A condition that begins with ``{`` is a filter in JSON. A
    condition that the filter language does not allow is a usage error.
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
                f"--filter {condition!r}: expected KEY=VALUE (or !=, >=, <=, >, < instead of =), or a filter in JSON"
            )
        _check_equal(condition, match)
        key, operator, value = match["key"], match["operator"], _parsed(condition, match)
        if operator == "!=":
            others.append({key: {"ne": value}})
        elif operator == "=":
            _tests(wanted, key, list, condition).append(value)
        elif (bound := _BOUNDS[operator]) not in (bounds := _tests(wanted, key, dict, condition)):
            bounds[bound] = value
        else:  # a second bound of this kind
            others.append({key: {bound: value}})
    parts = ([wanted] if wanted else []) + others
    if not parts:
        return {}
    stated = parts[0] if len(parts) == 1 else {"and": parts}
    if not all(_PLAIN.fullmatch(condition.strip()) for condition in conditions):
        # imported here, because the parser is slow to import, and plain conditions are always allowed
        from twinvec.retrieval.filters import parse_filter

        with wrong_usage():
            parse_filter(stated)
    return stated


def _tests(wanted: dict[str, Any], key: str, kind: type[_Tests], condition: str) -> _Tests:
    """Return the tests of a key in the filter: the list of its values after =, or the dict of its bounds."""
    tests = wanted.setdefault(key, kind())
    if not isinstance(tests, kind):
        raise typer.BadParameter(f"--filter {condition!r}: {key} has both = and a bound; leave one out")
    return tests


def _json_filter(text: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"--filter {text[:200]!r}: invalid JSON ({error})") from None
    if not found:
        raise typer.BadParameter("--filter '{}': expected a filter, such as '{\"lang\": \"en\"}'")
    return found


def _check_equal(condition: str, match: re.Match[str]) -> None:
    """Refuse ``==``, ``=>``, ``=<`` and ``!==``, whose second character would count as part of the value."""
    key, operator, value = match["key"], match["operator"], match["value"]
    if operator not in ("=", "!=") or not (meant := _MEANT.get(value[:1])):
        return
    meant = operator if operator == "!=" else meant
    quoted = json.dumps(value, ensure_ascii=False)
    raise typer.BadParameter(
        f"--filter {condition!r}: {operator}{value[0]} is not an operator; write {key}{meant}{value[1:].lstrip()}, "
        f"or '{key}{operator}{quoted}' if the value begins with {value[0]}"
    )


def _parsed(condition: str, match: re.Match[str]) -> Any:
    """Parse a number, a boolean or a quoted text as JSON; refuse null, lists and objects; keep any other text."""
    key, operator, text = match["key"], match["operator"], match["value"]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, (str, int, float, bool)) or operator in _BOUNDS:
        return value
    stated = {key: {"null": True} if value is None else value}
    meant = json.dumps({"not": stated} if operator == "!=" else stated, ensure_ascii=False)
    as_text = f"{key}{operator}{json.dumps(text, ensure_ascii=False)}"
    raise typer.BadParameter(
        f"--filter {condition!r}: write {quote(meant)}, or {quote(as_text)} if the value is a text"
    )


def filter_hints(filter: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[str]:
    """Yield probable mistakes in the conditions of --filter, found with ``info`` (``Collection.info``).

    ``filter`` was returned by ``parse_filter_options``; conditions of a nested JSON filter get no hint.
    """
    from twinvec_qdrant.records.schema import SHOWN_FIELDS

    indexes: Mapping[str, str] = info.get("payload_indexes") or {}
    own = {"id", "and", "or", "not", info.get("tenant_key"), *SHOWN_FIELDS}
    combined = filter.get("and")
    is_combination = isinstance(combined, list) and all(isinstance(each, Mapping) for each in combined)
    parts: Sequence[Mapping[str, Any]] = combined if is_combination and combined else [filter]
    for part in parts:
        for key, test in part.items():
            if key in own or not indexes or any(mark in key for mark in '"['):
                continue
            if key in indexes:
                yield from _other_kinds(key, test, indexes[key])
            elif not any(each.startswith(f"{key}.") for each in indexes):
                names = ", ".join(list(indexes)[:_SHOWN]) + (", ..." if len(indexes) > _SHOWN else "")
                yield f"the collection has no index of the key {key!r}; it has indexes of {names}"


def _other_kinds(key: str, test: object, kind: str) -> Iterator[str]:
    """Yield a hint for each value in a condition whose type differs from the type of the key's stored values."""
    for value in test if isinstance(test, list) else ():
        given = "bool" if isinstance(value, bool) else "keyword" if isinstance(value, str) else "float"
        if kind not in _HOLDS or _HOLDS[kind] == _HOLDS[given]:
            continue
        hint = f"{key!r} holds {_HOLDS[kind]}"
        if kind == "keyword":
            text = json.dumps(json.dumps(value))
            hint += f": write --filter {quote(f'{key}={text}')}"
        yield hint
