"""Notes: small records of an application's that live in the collection, so that they cannot drift from it.

Points without vectors: no search finds them, and they count neither as chunks nor as sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from twinvec.retrieval.filters import Filter, parse_filter
from twinvec_qdrant.records.schema import filter_conditions, note_id
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Point


class Notes:
    """The notes of one namespace, by key.

    Args:
        backend: The collection's.
        namespace: Keys of different namespaces do not meet.
    """

    def __init__(self, backend: Backend, namespace: str) -> None:
        self._backend = backend
        self._namespace = namespace

    def put(self, notes: Mapping[str, Mapping[str, Any]]) -> None:
        """Write notes, fields of plain JSON values by key; the same key again replaces."""
        with self._backend.writing:
            self._backend.upsert([Point(self._id(key), self._payload(key, fields)) for key, fields in notes.items()])
            self._backend.flush()

    def delete(self, keys: Iterable[str]) -> None:
        """Remove notes; keys that are not there are passed over."""
        with self._backend.writing:
            self._backend.delete([self._id(key) for key in keys])
            self._backend.flush()

    def find(self, filter: Filter | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Key and fields of all notes whose fields satisfy the filter, in no meaningful order.

        Raises:
            FilterError: the filter has no meaning.
        """
        own = [field_is("kind", "note"), field_is("namespace", self._namespace)]
        for point in self._backend.scroll([*own, *filter_conditions(parse_filter(filter))]):
            yield point.payload["key"], point.payload["metadata"]

    def _id(self, key: str) -> str:
        return note_id(self._namespace, key)

    def _payload(self, key: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        return {"kind": "note", "namespace": self._namespace, "key": key, "metadata": dict(fields)}
