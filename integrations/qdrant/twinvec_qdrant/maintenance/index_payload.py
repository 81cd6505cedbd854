"""Bring the payload indexes of a collection in line with its settings: read all payloads, then remove and add."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from twinvec.errors import ConfigurationError, StoreLimitError
from twinvec_qdrant.records.payload_indexes import (
    MAX_PATHS,
    OWN_FIELDS,
    SOURCE_KEY,
    check_requested,
    chosen_type,
    misfits,
    served_type,
)
from twinvec_qdrant.records.payload_keys import SeenKey, seen_keys
from twinvec_qdrant.records.schema import LLAMA_INDEX_KEYS, filtered_paths, tenant_path, user_payload
from twinvec_qdrant.settings import PayloadIndexes
from twinvec_qdrant.stores.base import Backend, FieldIndexType

logger = logging.getLogger(__name__)


def index_payload(backend: Backend, settings: PayloadIndexes, tenant_key: str | None) -> None:
    """Make the payload indexes that the settings ask for, and remove all others; own fields keep theirs.

    Raise ``ConfigurationError``, before any change, if documents have values that a requested index would hide.
    """
    check_requested(settings, tenant_key)
    seen = seen_keys(_payloads(backend))
    there = backend.field_indexes()
    wanted = _wanted(seen, settings, there, backend.location)
    kept = OWN_FIELDS | {tenant_path(tenant_key)}
    for path in there:
        if path not in kept and path not in wanted:
            backend.drop_field_index(path)
    requested = {path for key in settings.types for path in filtered_paths(key)}
    for path, kind in wanted.items():
        try:
            if path not in kept:
                backend.index_field(path, kind)
        except StoreLimitError as error:
            if path in requested:
                raise
            logger.warning("%s: no more payload keys are indexed: %s", backend.location, error)
            break
    backend.flush()


def _payloads(backend: Backend) -> Iterator[Mapping[str, Any]]:
    for point in backend.scroll((), ["metadata", *LLAMA_INDEX_KEYS]):
        if "metadata" in point.payload:
            yield user_payload(point.payload)


def _wanted(
    seen: Mapping[str, SeenKey], settings: PayloadIndexes, there: Mapping[str, str], location: str
) -> dict[str, FieldIndexType]:
    """Return the type of index by path; of keys by themselves those that most values have, as far as there is room."""
    wanted: dict[str, FieldIndexType] = {}
    for key, requested in settings.types.items():
        if requested:
            asked = served_type(requested)
            if key in seen and misfits(asked, seen[key]):
                hidden, what = ("dates", "numbers") if asked == "float" else ("numbers", "dates")
                raise ConfigurationError(
                    f"{location}: the key {key!r} holds {hidden} too, which an index of {what} would hide: index it "
                    'as "keyword", or leave it out'
                )
            wanted |= dict.fromkeys(filtered_paths(key), asked)
    others = [key for key in seen if settings.automatic and key not in settings.types]
    for key in sorted(others, key=lambda each: (each != SOURCE_KEY, -sum(seen[each].kinds.values()))):
        paths = filtered_paths(key)
        usual = max(seen[key].kinds, key=lambda kind: seen[key].kinds[kind])
        now = next((there[path] for path in paths if path in there), None)
        kind = chosen_type(key, seen[key], now if now in seen[key].kinds else usual)
        if kind is not None and len(wanted) + len(paths) <= MAX_PATHS:
            wanted |= dict.fromkeys(paths, kind)
    return wanted
