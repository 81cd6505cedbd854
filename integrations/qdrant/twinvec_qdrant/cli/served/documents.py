"""Documents by their ids for the commands: of a collection that they open, or of one that a process serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twinvec_qdrant.asking import delete_documents, stored_documents
from twinvec_qdrant.cli.options import CollectionPlace, open_from_options
from twinvec_qdrant.cli.served.searching import client_of
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path

if TYPE_CHECKING:
    from twinvec_qdrant.collection import Collection

_IDS_AT_ONCE = 500  # of one request


class OwnDocuments:
    """The documents of a collection that this process has opened."""

    def __init__(self, opened: Collection) -> None:
        self._opened = opened

    def get(self, ids: Sequence[str], *, nearest: bool = True) -> dict[str, Any]:
        """Return what ``asking.stored_documents`` does, and the fields of the collection's ``roots``."""
        found = stored_documents(self._opened, ids, nearest=nearest)
        return {**found, "roots": [root.as_fields() for root in self._opened.roots()]}

    def delete(self, *, dry_run: bool = False, **chosen: Any) -> dict[str, Any]:
        """Do and return what ``asking.delete_documents`` does with one of ``ids``, ``filter`` and ``source``."""
        ids, conditions, source = (chosen.get(name) for name in ("ids", "filter", "source"))
        return delete_documents(self._opened, ids, conditions, source, dry_run=dry_run)


class ServedDocuments:
    """The documents of a collection of a store that a process serves; the methods are those of ``OwnDocuments``."""

    def __init__(self, client: ServerClient, name: str) -> None:
        self._client = client
        self._path = collection_path(name, "/documents")

    def get(self, ids: Sequence[str], *, nearest: bool = True) -> dict[str, Any]:
        wish = {} if nearest else {"nearest": False}  # which an older process does not know
        asked = [{"ids": each, **wish} for each in _slices(ids)]
        return _joined([self._client.post(f"{self._path}/get", each) for each in asked])

    def delete(self, *, dry_run: bool = False, **chosen: Any) -> dict[str, Any]:
        asked = [{"ids": each} for each in _slices(chosen["ids"])] if "ids" in chosen else [chosen]
        path = f"{self._path}/delete"
        return _joined([self._client.post(path, {**each, "dry_run": dry_run}) for each in asked])


@contextmanager
def documents_of(place: CollectionPlace) -> Iterator[OwnDocuments | ServedDocuments]:
    """Open the collection that the options name; a process that serves the store is asked instead.

    Raises:
        TwinvecError: as for ``Collection.open``, or the process does not answer.
    """
    if (client := client_of(place)) is not None:
        with client:
            yield ServedDocuments(client, place.name)
    else:
        with open_from_options(place) as opened:
            yield OwnDocuments(opened)


def nearest_hint(ids: Sequence[str]) -> str:
    """Return what to add to a message that a document is missing: the ids nearest to it, or nothing without any."""
    return f"; the nearest: {', '.join(map(repr, ids))}" if ids else ""


def _slices(ids: Sequence[str]) -> list[list[str]]:
    return [list(ids[start : start + _IDS_AT_ONCE]) for start in range(0, len(ids), _IDS_AT_ONCE)]


def _joined(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return one answer for several slices of ids: counts are added up, and lists and dicts are joined."""
    joined: dict[str, Any] = {}
    for answer in answers:
        for name, value in answer.items():
            before = joined.get(name)
            if before is None or name == "roots":
                joined[name] = value
            else:
                joined[name] = before | value if isinstance(value, dict) else before + value
    return joined
