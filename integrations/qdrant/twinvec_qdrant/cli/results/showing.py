"""A document for people: found in one collection or in all of a store, printed or opened."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import typer

from twinvec.cli.terminal import complain, show
from twinvec.errors import ConfigurationError, TwinvecError
from twinvec.retrieval.documents import Document
from twinvec_qdrant.cli.collections import store_entries
from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.cli.results.hits import copyable, linked, printable, safe
from twinvec_qdrant.cli.results.places import Places
from twinvec_qdrant.cli.served.documents import documents_of, nearest_hint
from twinvec_qdrant.list_and_drop import CollectionEntry
from twinvec_qdrant.several import collections_of
from twinvec_qdrant.stored_roots import StoredRoot

_NEAREST = 3
_PLACE = ("path", "format")  # of a payload
_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document and its place.

    ``text`` is read from the document's file if that is a text file on this machine, else from the collection.
    """

    document: Document
    text: str
    file: Path | None
    described: str
    collection: str = ""


def find_document(place: CollectionPlace, identity: str) -> FoundDocument:
    """Look for a document in the collection that the options name, or in all of the store.

    Raises:
        CollectionNotFoundError: the store has no collection.
        ConfigurationError: several collections have such a document.
        TwinvecError: the collection cannot be searched; without a name, none of them can.
        typer.Exit: no collection has such a document; the nearest ids have been printed.
    """
    if place.name:
        return _found(place, identity) or _end([place], identity)
    there: list[FoundDocument] = []
    failed: dict[str, TwinvecError] = {}
    entries = [CollectionEntry(**each) for each in store_entries(place)]
    names = [entry.name for entry in collections_of(entries, server=place.url or "", path=place.path)]
    for name in names:
        try:
            found = _found(place._replace(name=name), identity)
        except TwinvecError as error:
            failed[name] = error
            continue
        if found is not None:
            there.append(replace(found, collection=name))
    if len(failed) == len(names):
        raise failed[names[0]]
    for name, reason in failed.items():
        complain(f"twinvec: the collection {name!r} was not searched: {reason}")
    if len(there) > 1:
        several = ", ".join(each.collection for each in there)
        raise ConfigurationError(f"{identity!r} is in several collections: {several}; choose one with --collection")
    return there[0] if there else _end([place._replace(name=each) for each in names if each not in failed], identity)


def _end(places: Sequence[CollectionPlace], identity: str) -> NoReturn:
    """Exit with code 1, since none of these collections has the document; name the ids nearest to it."""
    nearest: list[str] = []
    for place in places:
        with documents_of(place) as documents:
            nearest += documents.get([identity])["nearest"].get(identity, [])
    names = ", ".join(repr(place.name) for place in places)
    searched = (
        f"the collection {names} has no document"
        if len(places) == 1
        else f"none of the collections {names} (--collection chooses one) has a document"
    )
    complain(f"twinvec: {searched} {identity!r}{nearest_hint([*dict.fromkeys(nearest)][:_NEAREST])}")
    raise typer.Exit(1)


def _found(place: CollectionPlace, identity: str) -> FoundDocument | None:
    chunk_of, mark, position = identity.rpartition("#")
    ids = [identity, *([chunk_of] if mark and position.isdecimal() else [])]  # search --chunks shows ids of chunks
    with documents_of(place) as documents:
        found = documents.get(ids, nearest=False)
    if not found["documents"]:
        return None
    first = found["documents"][0]
    document = Document(first["id"], first["text"], payload=first["payload"])
    places = Places(map(StoredRoot.of_fields, found.get("roots", [])))  # an older server tells no roots
    file = places.file(document.id)
    text = None if file is None else places.text(file, document.payload)
    return FoundDocument(document, text or document.text, file, places.described(document.id))


def open_document(found: FoundDocument) -> bool:
    """Open the document's file or web address; return False, and say why, if it has none.

    Raises:
        typer.Exit: no program of this machine opens it.
    """
    place = str(found.file) if found.file else found.document.id
    if found.file is None and not place.startswith(_WEB):
        complain(f"twinvec: {place!r} is no file on this machine; this is its text:")
        return False
    if typer.launch(place):
        complain(f"twinvec: no program of this machine opens {copyable(place)}")
        raise typer.Exit(1)
    return True


def print_document(found: FoundDocument) -> None:
    """Print the document below its id, its place and its payload."""
    from rich.text import Text

    shown = [f"{key}: {_readable(value)}" for key, value in found.document.payload.items() if key not in _PLACE]
    shown = [*([found.collection] if found.collection else []), *shown, *([found.described] if found.described else [])]
    show(linked(copyable(found.document.id), found.file))
    if shown:
        show(Text(" · ".join(map(printable, shown)), "dim"))
    show("", safe(found.text.rstrip()))


def _readable(value: Any) -> str:
    """Return a value of a payload for people: the items of a list, and JSON for what is nested."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return ", ".join(map(_readable, value))
    return json.dumps(value, ensure_ascii=False)
