"""Translates filters of LangChain and LlamaIndex applications into the language of ``twinvec.retrieval.filters``.

A filter is a mapping in this language or a ``qdrant_client.models.Filter``. Its keys may begin with ``metadata.``, as
in the frameworks' own Qdrant stores. ``metadata.id`` becomes ``.id``, because ``id`` is the document's own id here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from math import comb
from typing import Any
from uuid import UUID

from twinvec.errors import FilterError
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.filters.words import words

NOTHING: Filter = {"id": {"exists": False}}
"""A filter that no document satisfies."""

_PREFIX = "metadata."
_PART = re.compile(r'"[^"]*"(?:\[\])?|[^."]+')  # of a payload path
_COMBINING = ("and", "or", "not")
_MOST_CHOICES = 100


def understood_filter(filter: object) -> Filter | None:
    """Return the filter in the language of ``twinvec.retrieval.filters``.

    Raise FilterError for an object that is not a filter, or for a condition that this language lacks.
    """
    try:
        return _understood(filter)
    except RecursionError:
        raise FilterError("the filter is nested too deeply: use fewer levels") from None


def _understood(filter: object) -> Filter | None:
    """Return the result of ``understood_filter``; raise RecursionError for a filter that is nested too deeply."""
    if filter is None:
        return None
    if isinstance(filter, Mapping):
        return {metadata_key(key): _inner(key, wanted) for key, wanted in filter.items()}
    if type(filter).__module__.startswith("qdrant_client"):
        return _filter(filter)
    raise FilterError(
        f"a filter is a mapping such as {{'team': 'hr', 'year': {{'gte': 2020}}}} or a qdrant_client.models.Filter, "
        f"got {type(filter).__name__}"
    )


def metadata_key(key: Any) -> Any:
    """Return the key without ``metadata.``; ``metadata.id`` becomes ``.id``, as ``id`` is the document's own id."""
    if not isinstance(key, str) or not key.startswith(_PREFIX) or key == _PREFIX:
        return key
    return payload_key(key.removeprefix(_PREFIX))


def payload_key(key: str) -> str:
    """Return the key by which a filter names a metadata key: ``.id`` for ``id``, else the key itself."""
    return ".id" if key == "id" else key


def canonical_id(identity: str) -> str:
    """Return a UUID in the form in which Qdrant returns it, with dashes; return any other id as it is."""
    try:
        return str(UUID(identity))
    except ValueError:
        return identity


def all_of(parts: Iterable[Filter]) -> Filter:
    """Return a filter that requires all parts; an empty part requires nothing."""
    needed = [part for part in parts if part]
    return {"$and": needed} if len(needed) > 1 else needed[0] if needed else {}


def _inner(key: Any, wanted: Any) -> Any:
    if not isinstance(key, str) or key.removeprefix("$") not in _COMBINING:
        return wanted
    if isinstance(wanted, (list, tuple)):
        return [_understood(each) if isinstance(each, Mapping) else each for each in wanted]
    return _understood(wanted) if isinstance(wanted, Mapping) else wanted


def _filter(filter: Any) -> Filter:
    from qdrant_client import models

    if not isinstance(filter, models.Filter):
        return _condition(filter)
    parts = [_condition(each) for each in _listed(filter.must)]
    parts += [_none(_condition(each)) for each in _listed(filter.must_not)]
    if should := [_condition(each) for each in _listed(filter.should)]:
        parts.append(_any(should))
    if filter.min_should is not None:
        parts.append(_at_least(filter.min_should.min_count, [_condition(e) for e in filter.min_should.conditions]))
    return all_of(parts)


def _at_least(count: int, parts: list[Filter]) -> Filter:
    if count <= 0:
        return {}
    if count > len(parts):
        return NOTHING
    if comb(len(parts), count) > _MOST_CHOICES:
        raise FilterError(
            f"min_should: {count} of {len(parts)} conditions have more than {_MOST_CHOICES} combinations; "
            "use fewer conditions"
        )
    return _any([all_of(chosen) for chosen in combinations(parts, count)])


def _condition(condition: Any) -> Filter:
    from qdrant_client import models

    if isinstance(condition, models.Filter):
        return _filter(condition)
    if isinstance(condition, models.HasIdCondition):
        ids = [str(each) for each in condition.has_id]
        return {"id": list(dict.fromkeys([*ids, *map(canonical_id, ids)]))} if ids else NOTHING
    if isinstance(condition, models.IsEmptyCondition):
        return {_key(condition.is_empty.key): {"exists": False}}
    if isinstance(condition, models.IsNullCondition):
        return {_key(condition.is_null.key): {"null": True}}
    if isinstance(condition, models.FieldCondition):
        return _field(condition)
    raise FilterError(f"a {type(condition).__name__} has no counterpart in twinvec's filters: leave it out")


def _field(condition: Any) -> Filter:
    key = _key(condition.key)
    parts = []
    for name in ("geo_bounding_box", "geo_radius", "geo_polygon", "values_count"):
        if getattr(condition, name) is not None:
            raise FilterError(f"filter {key!r}: {name} has no counterpart in twinvec's filters: leave it out")
    if condition.match is not None:
        parts.append(_match(key, condition.match))
    if condition.range is not None:
        parts.append(_range(key, condition.range))
    if condition.is_empty is not None:
        parts.append({key: {"exists": not condition.is_empty}})
    if condition.is_null is not None:
        parts.append({key: {"null": condition.is_null}})
    if not parts:
        raise FilterError(f"filter {key!r}: the FieldCondition has no condition; give it a match or a range")
    return all_of(parts)


def _match(key: str, match: Any) -> Filter:
    kind = type(match).__name__
    if kind not in _MATCHES:
        raise FilterError(f"filter {key!r}: a {kind} has no counterpart in twinvec's filters: leave it out")
    return _MATCHES[kind](key, match)


def _range(key: str, range: Any) -> Filter:
    bounds = {name: limit for name in ("gt", "gte", "lt", "lte") if (limit := getattr(range, name)) is not None}
    return {key: bounds or {"exists": True}}


def _except(key: str, match: Any) -> Filter:
    excepted = list(match.except_)
    there: Filter = {key: {"exists": True}}
    return all_of([{key: {"not_in": excepted}}, there]) if excepted else there


def _any_word(key: str, match: Any) -> Filter:
    parts: list[Filter] = [{key: {"text": word}} for word in words(match.text_any)]
    return _any(parts) if parts else NOTHING


_MATCHES: dict[str, Callable[[str, Any], Filter]] = {
    "MatchValue": lambda key, match: {key: {"eq": match.value}},
    "MatchAny": lambda key, match: {key: {"in": list(match.any)}} if match.any else NOTHING,
    "MatchExcept": _except,
    "MatchText": lambda key, match: {key: {"text": match.text}},
    "MatchPhrase": lambda key, match: {key: {"phrase": match.phrase}},
    "MatchTextAny": _any_word,
}


def _any(parts: list[Filter]) -> Filter:
    if not all(parts):  # a part without conditions is always true
        return {}
    return {"$or": parts} if len(parts) > 1 else parts[0]


def _none(part: Filter) -> Filter:
    return {"$not": part} if part else NOTHING


def _listed(conditions: Any) -> list[Any]:
    if conditions is None:
        return []
    return list(conditions) if isinstance(conditions, (list, tuple)) else [conditions]


def _key(path: str) -> str:
    """Return the key for a payload path of Qdrant: the path without ``metadata.`` and the quotes around its parts."""
    whole = path.removeprefix(_PREFIX)
    parts = _PART.findall(whole)
    if ".".join(parts) != whole:
        raise FilterError(f'filter {path!r}: expected a payload path such as metadata.team or metadata."a.b"')
    return payload_key(".".join(part if "." in part else part.replace('"', "") for part in parts))
