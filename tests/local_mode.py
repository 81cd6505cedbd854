"""Importing this module makes the local mode of Qdrant's client quicker in this process, with the same answers.

It replaces parts of the client, which tests use without a server.

Local mode tests every point for every search of every request, one condition after another, where a server looks into
an index. A condition on ids or on words is answered here for all points at once; what remains of a filter is tested at
the points that are left. A client copies large tables when it is made, and a path is parsed again for every point: both
are quicker here as well.
"""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
from qdrant_client import models
from qdrant_client.embed import schema_parser
from qdrant_client.local import local_collection, payload_value_extractor
from qdrant_client.local.payload_filters import normalize_point_ids

_calculate = local_collection.calculate_payload_mask


def mask(payloads: Any, payload_filter: Any, ids_inv: Any, deleted_per_vector: Any) -> Any:
    """Whether each point satisfies a filter."""
    if payload_filter is None:
        return np.ones(len(payloads), bool)
    found, others = np.ones(len(payloads), bool), []
    must = payload_filter.must or []
    for condition in must if isinstance(must, list) else [must]:
        indexed = _indexed(condition, payloads, ids_inv)
        if indexed is None:
            others.append(condition)
        else:
            found &= indexed
    rest = payload_filter.model_copy(update={"must": others or None})
    if others or rest.should is not None or rest.must_not is not None or rest.min_should is not None:
        rows = np.flatnonzero(found)
        left = ([payloads[row] for row in rows], rest, [ids_inv[row] for row in rows])
        found[rows] = _calculate(*left, {name: each[rows] for name, each in deleted_per_vector.items()})
    return found


def _indexed(condition: Any, payloads: Any, ids_inv: Any) -> Any:
    """The points that satisfy a condition on ids or words; None for another one."""
    if isinstance(condition, models.HasIdCondition):
        wanted = set(normalize_point_ids(tuple(condition.has_id)))
        return np.fromiter((each in wanted for each in ids_inv), bool, len(payloads))
    if not isinstance(condition, models.FieldCondition) or condition.model_fields_set != {"key", "match"}:
        return None
    words = _words(condition.match)
    if not words or not condition.key.isidentifier():
        return None
    values = [each.get(condition.key) for each in payloads]
    if not {*map(type, values)} <= {str, type(None)}:
        return None
    return np.fromiter((each in words for each in values), bool, len(payloads))


def _words(match: Any) -> set[str] | None:
    """The words of which a match wants one; None for another match."""
    wanted = match.any if isinstance(match, models.MatchAny) else [getattr(match, "value", None)]
    return set(wanted) if all(type(each) is str for each in wanted) else None


local_collection.calculate_payload_mask = mask
payload_value_extractor.parse_json_path = cache(payload_value_extractor.parse_json_path)
schema_parser.deepcopy = lambda value: pickle.loads(pickle.dumps(value))
