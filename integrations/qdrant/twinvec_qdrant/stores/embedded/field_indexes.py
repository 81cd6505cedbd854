"""Payload indexes of the embedded engine; they lie on the disk, and the system keeps in memory what searches use."""

from __future__ import annotations

from typing import Any

import qdrant_edge as edge

from twinvec_qdrant.stores.base import FieldIndexType


def index_params(kind: FieldIndexType) -> Any:
    """Return the engine's parameters for an index of this type."""
    if kind == "keyword":
        return edge.KeywordIndexParams(on_disk=True)
    if kind == "float":
        return edge.FloatIndexParams(on_disk=True)
    if kind == "bool":
        return edge.BoolIndexParams(on_disk=True)
    if kind == "datetime":
        return edge.DatetimeIndexParams(on_disk=True)
    if kind == "geo":
        return edge.GeoIndexParams(on_disk=True)
    return edge.TextIndexParams(tokenizer=edge.TokenizerType.Word, lowercase=True, phrase_matching=True, on_disk=True)


def index_types(info: edge.ShardInfo) -> dict[str, str]:
    """Return the type of every payload index, by path."""
    return {path: str(each.data_type).rpartition(".")[2].lower() for path, each in info.payload_schema.items()}
