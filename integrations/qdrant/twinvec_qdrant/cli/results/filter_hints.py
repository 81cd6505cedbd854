"""Hints about a filter that found nothing: what the collection's payload indexes say of its keys and values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from twinvec_qdrant.records.schema import SHOWN_FIELDS

_HOLDS = {"keyword": "texts", "float": "numbers", "integer": "numbers", "bool": "true or false"}
_SHOWN = 10


def filter_hints(filter: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the conditions of --filter, as far as ``Collection.info`` tells.

    ``filter`` is what ``parse_filter_options`` returns; conditions of a nested JSON filter get no hint.
    """
    indexes: Mapping[str, str] = info.get("payload_indexes") or {}
    own = {"id", "and", "or", "not", info.get("tenant_key"), *SHOWN_FIELDS}
    for part in filter.get("and", [filter]):
        for key, test in part.items():
            if key in own or not indexes or any(mark in key for mark in '"['):
                continue
            if key in indexes:
                yield from _other_kinds(key, test, indexes[key])
            elif not any(each.startswith(f"{key}.") for each in indexes):
                names = ", ".join(list(indexes)[:_SHOWN]) + (", ..." if len(indexes) > _SHOWN else "")
                yield f"the collection indexes no key {key!r}; it indexes {names}"


def _other_kinds(key: str, test: object, kind: str) -> Iterator[str]:
    """Yield a hint for each value of a condition that is of another kind than the values under the key."""
    for value in test if isinstance(test, list) else ():
        given = "bool" if isinstance(value, bool) else "keyword" if isinstance(value, str) else "float"
        if kind not in _HOLDS or _HOLDS[kind] == _HOLDS[given]:
            continue
        hint = f"{key!r} holds {_HOLDS[kind]}"
        if kind == "keyword":
            text = json.dumps(json.dumps(value))
            hint += f": write --filter {quote(f'{key}={text}')}"
        yield hint
