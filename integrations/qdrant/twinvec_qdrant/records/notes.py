"""Notes: small records of an application that live in the collection, so that both are copied and removed together.

A note is a point without vectors: no search finds it, and it counts neither as a chunk nor as a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from twinvec.retrieval.filters import Filter, parse_filter
from twinvec_qdrant.records.schema import NOTES, filter_conditions, note_id
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Point


class Notes:
    """The notes of one namespace, by key.

    Args:
        backend: The store of the collection.
        namespace: Separates the keys of different applications.
    """

    def __init__(self, backend: Backend, namespace: str) -> None:
        self._backend = backend
        self._namespace = namespace

    def put(self, notes: Mapping[str, Mapping[str, Any]]) -> None:
        """Write notes, each a mapping of plain JSON values, by key; a note of the same key is replaced."""
        with self._backend.writing:
            self._backend.upsert([self._point(key, fields) for key, fields in notes.items()])
            self._backend.flush()

    def delete(self, keys: Iterable[str]) -> None:
        """Remove notes; missing keys are ignored."""
        with self._backend.writing:
            self._backend.delete([note_id(self._namespace, key) for key in keys])
            self._backend.flush()

    def find(self, filter: Filter | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and fields of all notes whose fields satisfy the filter, in no meaningful order.

        Raises:
            FilterError: the filter is malformed.
        """
        own = [NOTES, field_is("namespace", self._namespace)]
        for point in self._backend.scroll([*own, *filter_conditions(parse_filter(filter))]):
            yield point.payload["key"], point.payload["metadata"]

    def _point(self, key: str, fields: Mapping[str, Any]) -> Point:
        payload = {"kind": "note", "namespace": self._namespace, "key": key, "metadata": dict(fields)}
        return Point(note_id(self._namespace, key), payload)
