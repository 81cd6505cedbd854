"""Rebuild the indexes of a collection.

The index of the vectors is measured by the share of the exact nearest chunks that it finds. The payload indexes follow
the settings and all stored payloads, which are read. If the index of the vectors is rebuilt, an older analysis of words
is renewed too, and the next ingest reads files by the newest reading version. An embedded store then erases deleted and
replaced texts. What killed writers have left can be such a text, so it is removed first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from twinvec.errors import ConfigurationError, StoreLimitError
from twinvec.support.checks import check_settings
from twinvec_qdrant.ingest.cutting.code import checked_chunking
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.notes import are_filtered, indexed_fields
from twinvec_qdrant.records.payload_indexes import (
    FOR_EQUALITY,
    MAX_PATHS,
    SERVED,
    SOURCE_KEY,
    SeenKey,
    check_requested,
    chosen_type,
    misfits,
    seen_keys,
    shown_indexes,
)
from twinvec_qdrant.records.schema import CHUNKS, LLAMA_INDEX_KEYS, filtered_paths, tenant_path, user_payload
from twinvec_qdrant.report import IndexReport
from twinvec_qdrant.settings import NEWEST_READING, ChunkSettings, ClusterSettings, IndexSettings, PayloadIndexes
from twinvec_qdrant.stores.base import OWN_FIELDS, Backend, FieldIndexType
from twinvec_qdrant.stores.points import Query

logger = logging.getLogger(__name__)

_SAMPLE = 100
_NEAREST = 10


def reindex(
    backend: Backend,
    index: IndexSettings | Mapping[str, Any] | None,
    cluster: ClusterSettings | None,
    payload_indexes: Mapping[str, Any] | Literal[False] | None,
    chunking: ChunkSettings | None,
    weights: BM25Weights,
) -> IndexReport:
    """Rebuild the indexes; see ``Collection.reindex``."""
    requested = IndexSettings.from_dict(index) if isinstance(index, Mapping) else index
    if not isinstance(requested, IndexSettings | None):
        raise ConfigurationError(f"index: expected IndexSettings or their fields, got {type(index).__name__}")
    check_settings(cluster, ClusterSettings, "cluster")
    chunking = checked_chunking(chunking)
    with backend.writing:
        if cluster is not None and cluster.given():
            backend.change_cluster(cluster)
        now = stored_description(backend)
        cutting = _cutting(now.chunking, chunking, backend.location)
        settings = requested or now.index
        wanted = now.payload_indexes if payload_indexes is None else PayloadIndexes.of(payload_indexes)
        index_payload(backend, wanted, now.tenant_key)
        rebuild = index is not None or (payload_indexes is None and chunking is None)
        if rebuild:
            if backend.erases:
                Catalog(backend, weights).recover()
            weights.renew()
        backend.build_index(settings, force=rebuild)
        reading = NEWEST_READING if rebuild else now.reading
        updated = now.model_copy(
            update={"index": settings, "payload_indexes": wanted, "chunking": cutting, "reading": reading}
        )
        backend.write_metadata(updated.changes(now))
    chunks = backend.count([CHUNKS])
    recall = _recall(backend, now.vector, settings)
    shown = shown_indexes(backend, now.tenant_key)
    erased = rebuild and backend.erases
    return IndexReport(str(settings), chunks, backend.indexed(chunks), recall, shown, erased)


def _cutting(now: ChunkSettings, wanted: ChunkSettings | None, location: str) -> ChunkSettings:
    """Return the wanted chunk settings; raise ``ConfigurationError`` if they would change the sizes of chunks."""
    if wanted is None:
        return now
    if replace(wanted, surroundings=now.surroundings).sizes() != now.sizes():
        raise ConfigurationError(
            f"{location}: the chunk settings are {now}, requested were {wanted}; only code, pages and surroundings can "
            "change: for another setting, ingest into a new collection"
        )
    return wanted.decided(now)


def _recall(backend: Backend, vector: str, settings: IndexSettings) -> float | None:
    """Return the share of the exact nearest chunks that the index finds, for a sample of the stored vectors.

    Return None if the collection has no chunks, or the server forbids exact search.
    """
    # a random sample: the store sorts chunks by their ids, which are hashes
    ids = [point.id for point in islice(backend.scroll([CHUNKS], ["kind"]), _SAMPLE)]
    sample = [point.dense for point in backend.retrieve(ids, [], vector).values() if point.dense is not None]
    if not sample:
        return None
    try:
        exact, found = (
            backend.search([Query(each, _NEAREST, (), (), exact, vector, settings) for each in sample])
            for exact in (True, False)
        )
    except StoreLimitError:  # the server forbids exact search
        return None
    hits = sum(len({a.id for a in wanted} & {b.id for b in got}) for wanted, got in zip(exact, found, strict=True))
    return hits / sum(map(len, exact))


def index_payload(backend: Backend, settings: PayloadIndexes, tenant_key: str | None) -> None:
    """Make the payload indexes that the settings request, and remove all others except those of twinvec's own fields.

    Raise ``ConfigurationError``, before any change, if documents have values that a requested index would hide.
    """
    check_requested(settings, tenant_key)
    seen = seen_keys(_payloads(backend, settings))
    there = backend.field_indexes()
    wanted = _wanted(seen, settings, there, backend.location)
    kept = {*OWN_FIELDS, tenant_path(tenant_key)}
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


def _payloads(backend: Backend, settings: PayloadIndexes) -> Iterator[Mapping[str, Any]]:
    for point in backend.scroll((), ["metadata", "namespace", *LLAMA_INDEX_KEYS]):
        if "metadata" in point.payload and are_filtered(point.payload.get("namespace", "")):
            payload = user_payload(point.payload)
            yield indexed_fields(payload, settings) if "namespace" in point.payload else payload


def _wanted(
    seen: Mapping[str, SeenKey], settings: PayloadIndexes, there: Mapping[str, str], location: str
) -> dict[str, FieldIndexType]:
    """Return the type of each path's index: the requested type, or for up to ``MAX_PATHS`` paths the most frequent."""
    wanted: dict[str, FieldIndexType] = {}
    for key, requested in settings.types.items():
        if requested:
            asked = SERVED[requested]
            if asked == "datetime" and key in seen and seen[key].leaps and not seen[key].numbers:
                logger.warning(FOR_EQUALITY, location, key, "leap seconds")
                asked = "keyword"
            if key in seen and misfits(asked, seen[key]):
                hidden, what = ("dates", "numbers") if asked == "float" else ("numbers", "dates")
                raise ConfigurationError(
                    f"{location}: the key {key!r} holds {hidden} too, which an index of {what} would hide from "
                    'filters: index it as "keyword", or leave it out'
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
