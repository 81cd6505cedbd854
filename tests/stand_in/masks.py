"""One result for all searches of a request that have the same filter: the client's local mode looks at every point."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from qdrant_client.local import local_collection

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
        masks[key] = _calculate(payloads, payload_filter, ids_inv, deleted_per_vector)
    return masks[key]


local_collection.calculate_payload_mask = _shared_mask
