"""List, get and delete documents for the commands, in a collection that they open, or through the serving process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from twinvec_qdrant.asking import delete_documents, stored_documents
from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.cli.served.connecting import opened_or_served
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path

if TYPE_CHECKING:
    from twinvec_qdrant.collection import Collection

_IDS_AT_ONCE = 500  # ids in one request
_LISTED_AT_ONCE = 100_000  # documents of one answer; for each answer, the server reads the ids of all documents


class OwnDocuments:
    """The documents of a collection that this process has opened."""

    def __init__(self, opened: Collection) -> None:
        self._opened = opened

    def entries(self, limit: int | None, **chosen: Any) -> Iterator[dict[str, Any]]:
        """Yield the entries of ``Collection.documents`` as JSON; ``chosen`` are its arguments that are not None."""
        return map(asdict, self._opened.documents(limit=limit, **chosen))

    def get(self, ids: Sequence[str], *, nearest: bool = True) -> dict[str, Any]:
        """Return the result of ``asking.stored_documents``, with the collection's ``roots`` as fields."""
        found = stored_documents(self._opened, ids, nearest=nearest)
        return {**found, "roots": [root.as_fields() for root in self._opened.roots()]}

    def delete(self, *, dry_run: bool = False, **chosen: Any) -> dict[str, Any]:
        """Call ``asking.delete_documents`` with one of ``ids``, ``filter`` and ``source``, and return its result."""
        return delete_documents(self._opened, *map(chosen.get, ("ids", "filter", "source")), dry_run=dry_run)


class ServedDocuments:
    """The documents of a collection in a served store; the methods are those of ``OwnDocuments``."""

    def __init__(self, client: ServerClient, name: str) -> None:
        self._client = client
        self._path = collection_path(name, "/documents")

    def entries(self, limit: int | None, **chosen: Any) -> Iterator[dict[str, Any]]:
        if "filter" in chosen:
            chosen["filter"] = json.dumps(chosen["filter"])
        while limit is None or limit > 0:
            most = min(limit or _LISTED_AT_ONCE, _LISTED_AT_ONCE)
            found = self._client.get(f"{self._path}?{urlencode({**chosen, 'limit': most}, doseq=True)}")
            yield from found["documents"]
            if found["next"] is None:
                return
            chosen["after"] = found["next"]
            limit = None if limit is None else limit - most

    def get(self, ids: Sequence[str], *, nearest: bool = True) -> dict[str, Any]:
        asked = [{"ids": each, "nearest": nearest} for each in _slices(ids)]
        return _joined([self._client.post(f"{self._path}/get", each) for each in asked])

    def delete(self, *, dry_run: bool = False, **chosen: Any) -> dict[str, Any]:
        asked = [{"ids": each} for each in _slices(chosen["ids"])] if "ids" in chosen else [chosen]
        path = f"{self._path}/delete"
        return _joined([self._client.post(path, {**each, "dry_run": dry_run}) for each in asked])


def documents_of(place: CollectionPlace) -> AbstractContextManager[OwnDocuments | ServedDocuments]:
    """Give access to the documents of the collection that the options name, as ``opened_or_served`` does."""
    return opened_or_served(place, OwnDocuments, ServedDocuments)


def nearest_hint(ids: Sequence[str]) -> str:
    """Return the end of a message about a missing document, which lists similar ids; "" without similar ids."""
    return f"; the nearest: {', '.join(map(repr, ids))}" if ids else ""


def _slices(ids: Sequence[str]) -> list[list[str]]:
    return [list(ids[start : start + _IDS_AT_ONCE]) for start in range(0, len(ids), _IDS_AT_ONCE)]


def _joined(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Merge the answers for several slices of ids: counts are added up, lists and dicts are joined."""
    joined: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            before = joined.get(name)
            if before is None or name == "roots":
                joined[name] = value
            else:
                joined[name] = before | value if isinstance(value, dict) else before + value
    return joined
