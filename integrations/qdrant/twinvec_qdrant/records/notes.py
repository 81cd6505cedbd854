"""Notes: small records of an application that live in the collection and are copied and removed with it.

A note is a point without vectors: no search finds it, and it counts neither as a chunk nor as a source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from twinvec.errors import DocumentError, TextError
from twinvec.retrieval.documents import plain_json
from twinvec.retrieval.filters import Filter, matches, parse_filter
from twinvec.text import check_text, is_list
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.payload_indexes import PayloadIndexing
from twinvec_qdrant.records.schema import NOTES, filter_conditions, note_id
from twinvec_qdrant.settings import PayloadIndexes
from twinvec_qdrant.stores.base import Backend, UnindexedError
from twinvec_qdrant.stores.conditions import StoreCondition, field_is
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.served_tests import hides

_OWN = "twinvec."


def are_filtered(namespace: str) -> bool:
    """Return whether notes of this namespace can be filtered; twinvec's own notes are found by their keys only."""
    return not namespace.startswith(_OWN)


def indexed_fields(fields: Mapping[str, Any], settings: PayloadIndexes) -> dict[str, Any]:
    """Return the fields of a note without the keys whose index the user has requested, for the documents.

    Notes and documents share the indexes. A note with a number under the key of an index of dates would otherwise
    replace this index, as a document does.
    """
    requested = {key.partition(".")[0] for key in settings.types}
    return {key: value for key, value in fields.items() if key not in requested}


class Notes:
    """The notes of one namespace, by key. Each application has a namespace, so keys of applications do not collide."""

    def __init__(self, backend: Backend, namespace: str) -> None:
        self._backend = backend
        self._indexing: PayloadIndexing | None = None
        self._namespace = namespace

    def put(self, notes: Mapping[str, Mapping[str, Any]]) -> None:
        """Write notes by key, each a mapping of plain JSON values; a note replaces the stored note of the same key.

        Raises:
            DocumentError: a note is not a mapping of plain JSON values; nothing was written.
            TextError: a key is not a string, or holds a lone surrogate; nothing was written.
        """
        if not isinstance(notes, Mapping):
            raise DocumentError(f"notes: expected a mapping from key to note, got {type(notes).__name__}")
        points = [self._point(key, fields) for key, fields in notes.items()]
        with self._backend.writing:
            if are_filtered(self._namespace):
                settings = stored_description(self._backend).payload_indexes
                if self._indexing is None:
                    self._indexing = PayloadIndexing(self._backend, settings)
                self._indexing.see(indexed_fields(point.payload["metadata"], settings) for point in points)
            self._backend.upsert(points)
            self._backend.flush()

    def delete(self, keys: Iterable[str]) -> None:
        """Remove notes; missing keys are ignored."""
        with self._backend.writing:
            self._backend.delete([self._id(key) for key in _several(keys)])
            self._backend.flush()

    def get(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the fields of the notes with these keys, by key; missing keys are left out."""
        found: dict[str, dict[str, Any]] = {}
        for page in pages(_several(keys)):
            points = self._backend.retrieve([self._id(key) for key in page])
            found |= {point.payload["key"]: point.payload["metadata"] for point in points.values()}
        return found

    def find(self, filter: Filter | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the key and the fields of every note whose fields satisfy the filter, in arbitrary order.

        Raises:
            FilterError: the filter is malformed.
        """
        wanted = parse_filter(filter)
        conditions = filter_conditions(wanted)
        if not (conditions and hides(conditions, self._backend.field_indexes())):
            with suppress(UnindexedError):  # the server demands an index, and the documents may have used up all
                yield from self._read(conditions)
                return
        yield from (note for note in self._read(()) if matches(wanted, *note))

    def _read(self, conditions: Iterable[StoreCondition]) -> Iterator[tuple[str, dict[str, Any]]]:
        for point in self._backend.scroll([NOTES, field_is("namespace", self._namespace), *conditions]):
            yield point.payload["key"], point.payload["metadata"]

    def _point(self, key: str, fields: Mapping[str, Any]) -> Point:
        if not isinstance(fields, Mapping):
            raise DocumentError(f"note {key!r}: expected a mapping, got {type(fields).__name__}")
        metadata = plain_json(fields, f"note {key!r}: it")
        payload = {"kind": "note", "namespace": self._namespace, "key": key, "metadata": metadata}
        return Point(self._id(key), payload)

    def _id(self, key: str) -> str:
        return note_id(self._namespace, check_text(key, "note: key"))


def _several(keys: Iterable[str]) -> Iterable[str]:
    """Return ``keys``; raise ``TextError`` for a single string, of which each letter would count as a key."""
    if not is_list(keys):
        raise TextError(f"note: keys: expected a list of strings, got {type(keys).__name__}")
    return keys
