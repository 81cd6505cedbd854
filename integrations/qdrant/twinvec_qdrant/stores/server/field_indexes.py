"""Payload indexes of a server's collection; they lie on the disk, and the system keeps in memory what searches use.

``types`` is what this process knows of them. Another process may change them at any time: it adds indexes for new
keys, and where an index comes to hide values from ranges, it is replaced. Before such a range, they are read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qdrant_client import models

from twinvec.errors import FilterError
from twinvec_qdrant.stores.base import FieldIndexType
from twinvec_qdrant.stores.conditions import Conditions, HasText, StoreCondition, field_tests_of
from twinvec_qdrant.stores.points import Query
from twinvec_qdrant.stores.served_tests import fitted, unsure
from twinvec_qdrant.stores.server.requests import Requests, is_local
from twinvec_qdrant.stores.steps import Steps, asked


class FieldIndexes:
    """The payload indexes of the collection that ``requests`` are about; the client's local mode has none."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._local = is_local(requests.client)
        self.types: dict[str, str] = {}
        self._phrases: set[str] = set()  # paths of text indexes that serve phrases

    def learn(self, info: models.CollectionInfo) -> None:
        """Keep what the server says of the collection."""
        if not self._local:
            schema = info.payload_schema or {}
            self.types = {path: str(each.data_type.value) for path, each in schema.items()}
            self._phrases = {path for path, each in schema.items() if getattr(each.params, "phrase_matching", None)}

    def read(self) -> Mapping[str, str]:
        """Return the type of every index by path, as the server has them now."""
        if not self._local:
            self.learn(self._requests.call(self._requests.client.get_collection))
        return self.types

    def make(self, path: str, kind: FieldIndexType) -> None:
        """Index a payload field; the index replaces one of another type.

        The server may build it after the call, and before it applies later writes.
        """
        if self._local or self.types.get(path) == kind:
            return
        if path in self.types:
            self.drop(path)
        self._requests.call(self._requests.client.create_payload_index, path, _params(kind), wait=False)
        self.types = {**self.types, path: kind}
        self._phrases.add(path)  # of texts; it says nothing of other indexes

    def drop(self, path: str) -> None:
        """Remove the index of a payload field."""
        if not self._local:
            self._requests.call(self._requests.client.delete_payload_index, path, wait=True)
            self.types = {key: value for key, value in self.types.items() if key != path}

    def fitted(self, *many: Conditions) -> Steps[list[tuple[StoreCondition, ...]]]:
        """Return each of the conditions as the server has to test them; read the indexes again if necessary.

        Raise ``FilterError`` if conditions search words at a path without a text index: there, servers up to 1.19
        look for the text as a part of the stored one, in the same case.
        """
        if any(map(self._are_unsure, many)):
            self.learn((yield from asked("get_collection")))
        return list(map(self._fitted, many))

    def fitted_queries(self, queries: Sequence[Query]) -> Steps[list[Query]]:
        """Return searches with conditions as the server has to test them; as for ``fitted``."""
        conditions = yield from self.fitted(*(query.conditions for query in queries))
        return [replace(query, conditions=fitted) for query, fitted in zip(queries, conditions, strict=True)]

    def _are_unsure(self, conditions: Conditions) -> bool:
        return not self._local and (unsure(conditions, self.types) or any(self._unserved(conditions)))

    def _fitted(self, conditions: Conditions) -> tuple[StoreCondition, ...]:
        for test in self._unserved(conditions):
            key = test.path.removeprefix("metadata.").replace("[]", "").replace('"', "")
            raise FilterError(
                f"{self._requests.location}: filter {key!r}: {'phrase' if test.phrase else 'text'} needs a text index "
                f"of the key on a server; add it by payload_indexes={{{key!r}: 'text'}}, or by "
                f"twinvec reindex --payload-index {key}:text"
            )
        return fitted(conditions, self.types)

    def _unserved(self, conditions: Conditions) -> Iterator[HasText]:
        """Yield the tests of words that the server has no index for."""
        for test in () if self._local else field_tests_of(conditions):
            if isinstance(test, HasText) and (
                self.types.get(test.path) != "text" or (test.phrase and test.path not in self._phrases)
            ):
                yield test


def _params(kind: FieldIndexType) -> Any:
    if kind == "text":
        return models.TextIndexParams(
            type=models.TextIndexType.TEXT,
            tokenizer=models.TokenizerType.WORD,
            lowercase=True,
            phrase_matching=True,
            on_disk=True,
        )
    of_kind: Any = {
        "keyword": models.KeywordIndexParams,
        "float": models.FloatIndexParams,
        "bool": models.BoolIndexParams,
        "datetime": models.DatetimeIndexParams,
        "geo": models.GeoIndexParams,
    }[kind]
    return of_kind(type=kind, on_disk=True)
