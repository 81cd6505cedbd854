"""Which points satisfy a filter: the client's local mode looks for every filter at every point, a server at an index.

All searches of a request that have the same filter share one result. A filter by ids, or by a keyword of the points
that all have, is answered almost as fast as by an index.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from qdrant_client import models
from qdrant_client.local import local_collection
from qdrant_client.local.payload_filters import normalize_point_ids

_calculate = local_collection.calculate_payload_mask
_found = threading.local()


@contextmanager
def shared() -> Iterator[None]:
    """Let the searches of this thread share results until the end of the block, in which no point may change."""
    _found.masks = {}
    try:
        yield
    finally:
        _found.masks = None


def _shared_mask(payloads: Any, payload_filter: Any, ids_inv: Any, deleted_per_vector: Any) -> Any:
    masks = getattr(_found, "masks", None)
    if masks is None or payload_filter is None:
        return _calculate(payloads, payload_filter, ids_inv, deleted_per_vector)
    key = (id(payloads), payload_filter.model_dump_json())
    if key not in masks:
        found = _indexed(payloads, payload_filter, ids_inv)
        masks[key] = _calculate(payloads, payload_filter, ids_inv, deleted_per_vector) if found is None else found
    return masks[key]


def _indexed(payloads: Any, payload_filter: Any, ids_inv: Any) -> Any:
    """The points that satisfy a filter of at most one condition; None for one that needs a test of every point."""
    if not payload_filter.model_fields_set:
        return np.ones(len(payloads), bool)
    if payload_filter.model_fields_set != {"must"} or len(payload_filter.must) != 1:
        return None
    (condition,) = payload_filter.must
    if isinstance(condition, models.HasIdCondition):
        wanted = set(normalize_point_ids(tuple(condition.has_id)))
        return np.fromiter((each in wanted for each in ids_inv), bool, len(payloads))
    if condition.model_fields_set != {"key", "match"} or not isinstance(condition.match, models.MatchAny):
        return None
    values = [each.get(condition.key) for each in payloads]
    if not all(type(each) is str for each in [*values, *condition.match.any]):
        return None
    words = set(condition.match.any)
    return np.fromiter((each in words for each in values), bool, len(payloads))


local_collection.calculate_payload_mask = _shared_mask
