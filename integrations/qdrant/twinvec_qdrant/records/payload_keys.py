"""The keys of payloads, and of what kind their values are: what an index of a key has to know.

A key is what a filter names: ``author.name`` is ``name`` in the mapping ``author`` or in a list of mappings. Keys that
no filter can name are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from twinvec.retrieval.filters.instants import moment
from twinvec_qdrant.stores.base import FieldIndexType

MAX_DEPTH = 3
"""Levels of the keys that are looked at; a filter tests 2 ** (levels - 1) paths."""

_KINDS: dict[type, FieldIndexType] = {str: "keyword", float: "float", int: "float", bool: "bool"}
_DATE_BEGINS = frozenset("+-\u2212 \t0123456789")


@dataclass(slots=True)
class SeenKey:
    """What is known of a key's values.

    Attributes:
        kinds: How many values there are for an index of each type, in the order of their first values.
        dates: Whether a text is a date.
        longest: Characters of the longest text.
    """

    kinds: dict[FieldIndexType, int]
    dates: bool = False
    longest: int = 0

    @property
    def numbers(self) -> bool:
        """Whether a value is a number."""
        return "float" in self.kinds


def seen_keys(payloads: Iterable[Mapping[str, Any]]) -> dict[str, SeenKey]:
    """Return the keys with scalars or lists of scalars, in the order in which they are first seen."""
    found: dict[str, SeenKey] = {}
    for payload in payloads:
        for key, value in _scalars(payload, "", MAX_DEPTH):
            kind = _KINDS.get(type(value))
            if kind is None:
                continue
            seen = found.get(key)
            if seen is None:
                seen = found[key] = SeenKey({})
            seen.kinds[kind] = seen.kinds.get(kind, 0) + 1
            if kind == "keyword":
                seen.longest = max(seen.longest, len(value))
                seen.dates = seen.dates or (value[:1] in _DATE_BEGINS and moment(value) is not None)
    return {".id" if key == "id" else key: seen for key, seen in found.items() if _is_filterable(key)}


def _scalars(payload: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the key and the value of every scalar; the elements of a list have the key of the list."""
    for name, value in payload.items():
        if "." in name:
            continue
        for each in value if isinstance(value, list) else (value,):
            if not isinstance(each, dict):
                yield prefix + name, each
            elif depth > 1:
                yield from _scalars(each, f"{prefix}{name}.", depth - 1)


def _is_filterable(key: str) -> bool:
    parts = key.split(".")
    return all(part and '"' not in part and "\\" not in part and not part.endswith("[]") for part in parts)
