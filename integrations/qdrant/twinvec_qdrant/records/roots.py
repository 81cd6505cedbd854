"""The roots of a collection: what its documents were taken from (folders, files, streams), each with a name.

One point without vectors holds all roots; a writer changes it by compare-and-set. The documents of a root are told by
their ids. Those of the first root have the ids that reading gives them; those of a later root begin with its name:
"minutes:2024/march.md". So two roots may hold files of the same name, and pruning one keeps the other.
"""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from twinvec.errors import ConfigurationError, DocumentError, StoreBusyError
from twinvec.text import check_text
from twinvec_qdrant.records.schema import RECORDS, note_id
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Point

SEPARATOR = ":"
"""Stands between the name of a later root and the id that reading gives."""

_NAMESPACE = "twinvec.roots"
_POINT = note_id(_NAMESPACE, "")
_TRIES = 5
_SHOWN = 3  # patterns in an error
_WILD = frozenset("*?[")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoredRoot:
    """What a collection keeps of one root.

    Attributes:
        name: Its name, which no other root of the collection has.
        first: Whether its documents have ids without its name.
        location: The absolute path of its folder or file; None if the documents came from elsewhere.
        host: Name of the machine that has the location.
        options: How it is read: the fields of ``ingest.reading.Root`` that differ from the defaults, without the path.
        described: What folders in it hold, in the user's words, by their path in it; "" is the whole root.
    """

    name: str
    first: bool = False
    location: str | None = None
    host: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    described: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the root that ``as_fields`` wrote; fields of newer versions are ignored."""
        return cls(**{name: fields[name] for name in cls.__slots__ if name in fields})

    def as_fields(self) -> dict[str, Any]:
        """Return the root as plain JSON, without what is empty."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: dict(each) if isinstance(each, Mapping) else each for name, each in values.items() if each}

    @property
    def prefix(self) -> str:
        """What the ids of its documents begin with."""
        return "" if self.first else self.name + SEPARATOR

    def is_local(self) -> bool:
        """Return whether its place is, or was, on this machine."""
        return self.location is not None and self.host == socket.gethostname()

    def is_here(self) -> bool:
        """Return whether this machine has its folder or file now."""
        return self.location is not None and self.is_local() and Path(self.location).exists()

    def description(self, source: str) -> str:
        """Return what the innermost described folder of a document holds, in the user's words, or ""."""
        place = source.removeprefix(self.prefix)
        inside = [path for path in self.described if not path or place == path or place.startswith(f"{path}/")]
        return self.described[max(inside, key=len)] if inside else ""


@dataclass(frozen=True, slots=True)
class Membership:
    """Which documents of a collection belong to one root; documents of no root belong to the first one.

    Attributes:
        prefix: What the ids of the root's documents begin with.
        others: What the ids of all later roots begin with.
    """

    prefix: str = ""
    others: tuple[str, ...] = ()

    def id_of(self, source: str) -> str:
        """Return the id of the root's document whose id is ``source`` without the root's name.

        Raises:
            DocumentError: a document with this id would belong to another root.
        """
        if not self.prefix and source.startswith(self.others):
            raise DocumentError(
                f"document {source!r}: its id begins like those of another source of the collection; "
                "ingest it under a name of its own: --source NAME (source=...)"
            )
        return self.prefix + source

    def has(self, source: str) -> bool:
        """Return whether a document with this id belongs to the root."""
        return source.startswith(self.prefix) if self.prefix else not source.startswith(self.others)


FIRST_ROOT = Membership()
"""The membership of all documents in a collection without other roots."""


class Roots:
    """The roots of the collection in ``backend``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def all(self) -> dict[str, StoredRoot]:
        """Return the roots by name, the first one first."""
        return self._read()[0]

    def membership(self, name: str | None) -> Membership:
        """Return which documents belong to a root; without a name, to the first one."""
        return _membership(self.all(), name)

    def descriptions(self, sources: Iterable[str]) -> dict[str, str]:
        """Return what the described ones of these documents are from, in the user's words, by id."""
        roots = self.all()
        found = {source: root.description(source) for source in sources if (root := owner(roots, source))}
        return {source: text for source, text in found.items() if text}

    def register(self, wanted: StoredRoot, *, named: bool, prune: bool, write: bool = True) -> Membership:
        """Add a root, or take it as the one of its name, and return which documents belong to it.

        Args:
            wanted: The root; ``first`` is ignored. Its descriptions are added to those that are stored.
            named: Whether the user gave the name. Otherwise a root of the same name at another place, which is still
                there, or of other files of the same folder, is another root.
            prune: Whether the ingest removes what the root no longer holds.
            write: Whether to store it.

        Raises:
            ConfigurationError: another root has this name; the ids of other documents begin with it; or ``prune`` would
                remove documents of which nobody has said which root they belong to.
            StoreBusyError: other writers keep changing the roots.
        """
        _check_name(wanted.name)
        result: dict[str, StoredRoot] = {}
        before: StoredRoot | None = None

        def add(roots: dict[str, StoredRoot]) -> dict[str, StoredRoot]:
            nonlocal result, before
            before = roots.get(wanted.name)
            if before is None:
                added = self._new(roots, wanted, named=named, prune=prune)
            else:
                added = self._again(before, wanted, named=named)
            result = {**roots, wanted.name: added}
            return result

        with self._backend.writing:
            if write:
                self._change(add)
            else:
                add(self.all())
        if before is not None and _is_elsewhere(before, wanted):
            logger.warning("the source %r has moved from %s to %s", wanted.name, before.location, wanted.location)
        return _membership(result, wanted.name)

    def _again(self, known: StoredRoot, wanted: StoredRoot, *, named: bool) -> StoredRoot:
        """Return a known root as it is from now on."""
        if not named and _is_elsewhere(known, wanted) and known.is_here():
            raise ConfigurationError(
                f"{self._backend.location}: its source {wanted.name!r} is {known.location}; to add "
                f"{wanted.location} as another one, name it: --source NAME (source=...)"
            )
        if not named and known.location == wanted.location and _takes_less(known, wanted):
            raise ConfigurationError(
                f"{self._backend.location}: its source {wanted.name!r} is {_files(known)} of {known.location}; to take "
                f"only {_files(wanted)} from now on, say --source {wanted.name!r} (source=...); "
                "to add them as another source, give another name"
            )
        there = known if wanted.location is None else wanted
        described = {**known.described, **wanted.described}
        return replace(there, first=known.first, described={path: text for path, text in described.items() if text})

    def _new(self, roots: Mapping[str, StoredRoot], wanted: StoredRoot, *, named: bool, prune: bool) -> StoredRoot:
        """Return a root that the collection has not had, as it is to be stored."""
        if not roots:
            if prune and not named and self._backend.holds([RECORDS]):
                raise ConfigurationError(
                    f"{self._backend.location}: nobody has said yet which source its documents are from, so pruning "
                    f"may remove those of another one; if all are from {wanted.name!r}, say so once: "
                    f"--source {wanted.name!r} (source=...)"
                )
            return replace(wanted, first=True)
        prefix = wanted.name + SEPARATOR
        if any(source.startswith(prefix) for source in self._sources()):
            raise ConfigurationError(
                f"{self._backend.location}: ids of its documents begin with {prefix!r} already; "
                "give the source another name: --source NAME (source=...)"
            )
        return replace(wanted, first=False)

    def _sources(self) -> Iterator[str]:
        return (point.payload["source"] for point in self._backend.scroll([RECORDS], ["source"]))

    def _change(self, change: Callable[[dict[str, StoredRoot]], dict[str, StoredRoot]]) -> None:
        """Write changed roots by compare-and-set; nothing if they are as they were."""
        for _ in range(_TRIES):
            roots, revision = self._read()
            changed = change(roots)
            if changed == roots:
                return
            written = uuid4().hex
            self._backend.commit([_point(changed, written)], [revision])
            self._backend.flush()
            if self._backend.exclusive or self._read()[1] == written:
                return
        raise StoreBusyError(f"{self._backend.location}: other writers keep changing its sources; try again")

    def _read(self) -> tuple[dict[str, StoredRoot], str | None]:
        stored = self._backend.retrieve([_POINT]).get(_POINT)
        if stored is None:
            return {}, None
        found = [StoredRoot.of_fields(each) for each in stored.payload["roots"]]
        return {each.name: each for each in found}, stored.payload["revision"]


def owner(roots: Mapping[str, StoredRoot], source: str) -> StoredRoot | None:
    """Return the root that a document belongs to, or None in a collection without roots."""
    later = (each for each in roots.values() if not each.first and source.startswith(each.prefix))
    return next(later, next((each for each in roots.values() if each.first), None))


def _is_elsewhere(known: StoredRoot, wanted: StoredRoot) -> bool:
    """Return whether both have a place, and not the same."""
    return wanted.location is not None and known.location not in (None, wanted.location)


def _takes_less(known: StoredRoot, wanted: StoredRoot) -> bool:
    """Return whether a root is now to be read by other patterns than before, unless both name files one by one."""
    before, now = (each.options.get("include", ()) for each in (known, wanted))
    return bool(now) and list(before) != list(now) and not (_are_files(before) and _are_files(now))


def _are_files(patterns: Sequence[str]) -> bool:
    plain = (re.sub(r"\\.", "", each) for each in patterns)  # without escaped characters
    return bool(patterns) and all(each.startswith("/") and _WILD.isdisjoint(each) for each in plain)


def _files(root: StoredRoot) -> str:
    patterns = root.options.get("include", ())
    more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
    return ", ".join(patterns[:_SHOWN]) + more or "all files"


def _membership(roots: Mapping[str, StoredRoot], name: str | None) -> Membership:
    prefix = "" if name is None else roots[name].prefix
    return Membership(prefix, tuple(each.prefix for each in roots.values() if not each.first))


def _check_name(name: str) -> None:
    check_text(name, "source")
    if not name.strip() or SEPARATOR in name or not name.isprintable():
        raise ConfigurationError(
            f"{name!r} cannot name a source: expected printable text without {SEPARATOR!r}; "
            "give it another name: --source NAME (source=...)"
        )


def _point(roots: Mapping[str, StoredRoot], revision: str) -> Point:
    """Return the note that holds the roots, beside the fields of notes, where no filter looks."""
    stored: Sequence[Mapping[str, Any]] = [each.as_fields() for each in roots.values()]
    note = {"kind": "note", "namespace": _NAMESPACE, "key": "", "metadata": {}}
    return Point(_POINT, {**note, "revision": revision, "roots": list(stored)})
