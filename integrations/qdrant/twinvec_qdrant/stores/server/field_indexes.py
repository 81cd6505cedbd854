"""Payload indexes of a server's collection, on disk; the system caches what searches use.

``_types`` has the indexes that this process knows. Another process may change the indexes at any time: it adds indexes
of new keys, and replaces an index that would hide values from a range. This process therefore reads the list of indexes
again before a search that would be wrong if an index had changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from qdrant_client import models

from twinvec.errors import FilterError
from twinvec_qdrant.stores.base import BESIDE_EARLIER, Backend, FieldIndexType
from twinvec_qdrant.stores.conditions import Conditions, HasText, StoreCondition, field_tests_of
from twinvec_qdrant.stores.points import Query
from twinvec_qdrant.stores.served_tests import fitted, unsure
from twinvec_qdrant.stores.server.retrying import Requests, is_local
from twinvec_qdrant.stores.steps import Steps, asked

_INDEX_PARAMS: Mapping[FieldIndexType, Any] = {
    "keyword": models.KeywordIndexParams,
    "float": models.FloatIndexParams,
    "bool": models.BoolIndexParams,
    "datetime": models.DatetimeIndexParams,
    "geo": models.GeoIndexParams,
    "text": partial(models.TextIndexParams, tokenizer=models.TokenizerType.WORD, lowercase=True, phrase_matching=True),
}


class FieldIndexes(Backend):
    """The payload indexes of the collection that ``requests`` are about; the client's local mode has none."""

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.location = requests.location
        self._client = requests.client
        self._local = is_local(requests.client)
        self._types: dict[str, str] = {}
        self._phrases: set[str] = set()  # paths of text indexes that serve phrases

    def _learn_indexes(self, info: models.CollectionInfo) -> None:
        """Remember the indexes that the server reports."""
        if not self._local:
            schema = info.payload_schema or {}
            self._types = {path: str(each.data_type.value) for path, each in schema.items()}
            self._phrases = {path for path, each in schema.items() if getattr(each.params, "phrase_matching", None)}

    def field_indexes(self) -> Mapping[str, str]:
        if not self._local:
            self._learn_indexes(self.requests.call(self._client.get_collection))
        return self._types

    def index_field(self, path: str, kind: FieldIndexType) -> None:
        """Index a payload field; the server may build the index after the call, but before it applies later writes."""
        if self._local or self._types.get(path) == kind:
            return
        if path in self._types:
            self.drop_field_index(path)
        params = _INDEX_PARAMS[kind](type=kind, on_disk=True)
        self.requests.call(self._client.create_payload_index, path, params, wait=False)
        self._types = {**self._types, path: kind}
        self._phrases.add(path)  # used for text indexes only

    def drop_field_index(self, path: str) -> None:
        if not self._local:
            self.requests.call(self._client.delete_payload_index, path, wait=True)
            self._types = {key: value for key, value in self._types.items() if key != path}

    def _fitted(self, *many: Conditions) -> Steps[list[tuple[StoreCondition, ...]]]:
        """Return each list of conditions adapted to the indexes; first read the list of indexes again if necessary.

        Raise ``FilterError`` if conditions search words at a path without a text index: servers up to 1.19 would search
        for the whole text as a substring, and distinguish upper and lower case.
        """
        if any(map(self._are_unsure, many)):
            self._learn_indexes((yield from asked("get_collection")))
        return list(map(self._as_served, many))

    def _fitted_queries(self, queries: Sequence[Query]) -> Steps[list[Query]]:
        """Return the queries with their conditions adapted to the indexes, as by ``_fitted``."""
        conditions = yield from self._fitted(*(query.conditions for query in queries))
        return [replace(query, conditions=fitted) for query, fitted in zip(queries, conditions, strict=True)]

    def _are_unsure(self, conditions: Conditions) -> bool:
        return not self._local and (unsure(conditions, self._types) or any(self._unserved(conditions)))

    def _as_served(self, conditions: Conditions) -> tuple[StoreCondition, ...]:
        for test in self._unserved(conditions):
            key = test.path.removeprefix("metadata.").replace("[]", "").replace('"', "")
            raise FilterError(
                f"{self.location}: filter {key!r}: {'phrase' if test.phrase else 'text'} needs a text index "
                f"of the key on a server; add the index by payload_indexes={{{key!r}: 'text'}}, or by "
                f"twinvec reindex --payload-index {key}:text, {BESIDE_EARLIER}"
            )
        return fitted(conditions, self._types)

    def _unserved(self, conditions: Conditions) -> Iterator[HasText]:
        """Yield the conditions' ``HasText`` tests for which the server has no text index that can answer them."""
        for test in () if self._local else field_tests_of(conditions):
            if isinstance(test, HasText) and (
                self._types.get(test.path) != "text" or (test.phrase and test.path not in self._phrases)
            ):
                yield test
