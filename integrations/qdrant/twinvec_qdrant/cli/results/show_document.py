"""Find a document in one collection or in all collections of a store, and print or open it for ``twinvec show``."""

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
_NOT_PRINTED = ("path", "format")  # payload keys
_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document with its file, its description, and its collection if several were searched.

    ``text`` comes from the document's file if it is a text file on this machine, else from the collection.
    """

    document: Document
    text: str
    file: Path | None
    described: str
    collection: str = ""


def find_document(place: CollectionPlace, identity: str) -> FoundDocument:
    """Find a document in the collection that the options name, or in all collections of the store if they name none.

    Raises:
        CollectionNotFoundError: the store has no collection.
        ConfigurationError: several collections have such a document.
        TwinvecError: the named collection cannot be searched, or without a name, no collection can be searched.
        typer.Exit: no collection has such a document; similar ids were printed.
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
    """Exit with code 1 because none of these collections has the document, and print similar ids."""
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
    ids = [identity, *([chunk_of] if mark and position.isdecimal() else [])]  # ``search --chunks`` prints ids of chunks
    with documents_of(place) as documents:
        found = documents.get(ids, nearest=False)
        places = Places(map(StoredRoot.of_fields, found["roots"]))
        if not found["documents"] and (ids := places.ids(Path(identity))):
            found = documents.get(ids, nearest=False)
    if not found["documents"]:
        return None
    first = found["documents"][0]
    document = Document(first["id"], first["text"], payload=first["payload"])
    file = places.file(document.id)
    text = None if file is None else places.text(file, document.payload)
    return FoundDocument(document, text or document.text, file, places.described(document.id))


def open_document(found: FoundDocument) -> bool:
    """Open the document's file or web address; if it has none, print a message and return False.

    Raises:
        typer.Exit: no program on this machine can open it.
    """
    place = str(found.file) if found.file else found.document.id
    if found.file is None and not place.startswith(_WEB):
        complain(f"twinvec: {place!r} is not a file on this machine; its text in the collection is:")
        return False
    if typer.launch(place):
        complain(f"twinvec: no program on this machine can open {copyable(place)}")
        raise typer.Exit(1)
    return True


def print_document(found: FoundDocument) -> None:
    """Print the document's id, collection, payload and description, and then its text."""
    from rich.text import Text

    shown = [f"{key}: {_readable(value)}" for key, value in found.document.payload.items() if key not in _NOT_PRINTED]
    shown = [*([found.collection] if found.collection else []), *shown, *([found.described] if found.described else [])]
    show(linked(copyable(found.document.id), found.file))
    if shown:
        show(Text(" · ".join(map(printable, shown)), "dim"))
    show("", safe(found.text.rstrip()))


def _readable(value: Any) -> str:
    """Format a payload value for people: list items separated by commas, nested values as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not any(isinstance(item, (list, dict)) for item in value):
        return ", ".join(map(_readable, value))
    return json.dumps(value, ensure_ascii=False)
