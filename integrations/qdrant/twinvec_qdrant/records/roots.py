"""The roots of a collection: the folders, files and streams that its documents were read from, each with a name.

One point without vectors holds all roots; a writer changes it by compare-and-set. The id of a document shows its root:
ids of the first root's documents have no prefix; other ids begin with the root's name, as in "minutes:2024/march.md".
Two roots may therefore hold files of the same name, and pruning one root keeps the documents of the other. Commands and
errors call a root "source".
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from twinvec.errors import ConfigurationError, DocumentError, StoreBusyError
from twinvec.support.checks import listed, shown, string
from twinvec.text import check_text
from twinvec_qdrant.records.schema import RECORDS, note_id
from twinvec_qdrant.stored_roots import SEPARATOR, StoredRoot, owner
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Point

_NAMESPACE = "twinvec.roots"
ROOTS = note_id(_NAMESPACE, "")
"""Id of the point that holds the roots."""

_TRIES = 5
_SHOWN = 3  # number of patterns that an error names
_WILD = frozenset("*?[")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Membership:
    """The rule by which documents of a collection belong to one root; documents without a root belong to the first.

    Attributes:
        prefix: Prefix of the ids of the root's documents.
        others: Prefixes of the ids of documents of all roots, except the first root, which has no prefix.
        root: The root as it is stored; None for documents without a root.
        added: Whether the root has just been added.
    """

    prefix: str = ""
    others: tuple[str, ...] = ()
    root: StoredRoot | None = None
    added: bool = False

    def id_of(self, source: str) -> str:
        """Return the collection's id for the document that has the id ``source`` in the root.

        Raises:
            DocumentError: a document with this id would belong to another root.
        """
        if not self.prefix and source.startswith(self.others):
            raise DocumentError(
                f"document {shown(source)}: its id begins with the name of another source of the collection; "
                "give this source a name: --source NAME (source=...)"
            )
        return self.prefix + source

    def has(self, source: str) -> bool:
        """Return whether a document with this id belongs to the root."""
        return source.startswith(self.prefix) if self.prefix else not source.startswith(self.others)


FIRST_ROOT = Membership()
"""The membership in a collection with at most one root: all documents belong to it."""


class Roots:
    """The roots of the collection in ``backend``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    @property
    def location(self) -> str:
        """The address of the collection, for errors."""
        return self._backend.location

    def all(self) -> dict[str, StoredRoot]:
        """Return the roots by name, the first root first."""
        return self._here(self._read()[0])

    def joined(self, other: Point) -> Point:
        """Return ``other``, the roots' point of a collection that is copied here, with this collection's roots added.

        If the roots of this collection were lost, their documents would count as documents of the first root, and be
        pruned with it.
        """
        coming = [StoredRoot.of_fields(each) for each in other.payload["roots"]]
        named = {each.name: each for each in coming}
        own = {name: each for name, each in self.all().items() if not each.first and name not in named}
        return _point(named | own, uuid4().hex) if own else other

    def membership(self, name: str | None) -> Membership:
        """Return the membership of the root with this name, or of the first root if ``name`` is None.

        Raises:
            ConfigurationError: the collection has no root of this name.
        """
        roots = self.all()
        if name is not None and string(name, "source") not in roots:
            known = f"its sources are {', '.join(map(repr, roots))}" if roots else "it has none"
            raise ConfigurationError(f"{self._backend.location}: there is no source {name!r}; {known}")
        return _membership(roots, name)

    def refreshed(self, membership: Membership) -> Membership:
        """Return the membership without the documents of roots that other processes have added since it was read.

        Call this method after the documents are listed: a root is added before its documents are stored.
        """
        now = _membership(self.all(), None)
        return replace(membership, others=tuple(dict.fromkeys((*membership.others, *now.others))))

    def remove(self, name: str) -> None:
        """Remove a root from the list; its documents stay, and then belong to the first root.

        Raises:
            StoreBusyError: other writers keep changing the roots.
        """
        with self._backend.writing:
            self._change(lambda roots: {each: root for each, root in roots.items() if each != name})

    def keep(self, removed: StoredRoot) -> None:
        """Add a root with documents again, after another process has removed the root.

        Without their root, its documents would count as documents of the first root, and be pruned with it. A first
        root is not added again if another root has become the first.

        Raises:
            StoreBusyError: other writers keep changing the roots.
        """

        def again(roots: dict[str, StoredRoot]) -> dict[str, StoredRoot]:
            replaced = removed.first and any(each.first for each in roots.values())
            return roots if replaced or removed.name in roots else {**roots, removed.name: removed}

        with self._backend.writing:
            self._change(again)

    def keep_with_documents(self, removed: StoredRoot) -> None:
        """After a killed process has removed a root, add the root again if it has documents."""
        roots = self.all()
        if removed.name in roots:
            return
        own = replace(_membership(roots, None), prefix=removed.prefix)
        if any(map(own.has, self._sources())):
            self.keep(removed)

    def descriptions(self, sources: Iterable[str]) -> dict[str, str]:
        """Return the user's descriptions of the documents' folders by document id, without empty ones."""
        roots = self.all()
        found = {source: root.description(source) for source in sources if (root := owner(roots, source))}
        return {source: text for source, text in found.items() if text}

    def register(self, wanted: StoredRoot, *, named: bool, prune: bool, write: bool = True) -> Membership:
        """Add a root, or update the root of the same name, and return its membership.

        Args:
            wanted: The root; ``first`` is ignored. Its descriptions are added to the stored descriptions. Without
                ``named`` and ``prune``, single files of a folder are added to the stored files, too.
            named: Whether the user gave the name. If not, a stored root of this name counts as another root if it has
                another location that still exists, or other files of the same folder.
            prune: Whether the ingest removes documents that the root no longer has.
            write: Whether to store the root; without it, only the membership is returned.

        Raises:
            ConfigurationError: another root has this name; ids of other documents begin with the name; or ``prune``
                would remove documents whose root is unknown.
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
                added = self._updated(before, wanted, named=named, prune=prune)
            result = {**roots, wanted.name: added}
            return result

        with self._backend.writing if write else self._backend.no_writers():
            if write:
                self._change(add)
            else:
                add(self.all())
        if before is not None and _is_elsewhere(before, wanted):
            what = "has moved" if write else "would move"
            logger.warning("the source %r %s from %s to %s", wanted.name, what, before.location, wanted.location)
        return replace(_membership(result, wanted.name), added=before is None)

    def _updated(self, known: StoredRoot, wanted: StoredRoot, *, named: bool, prune: bool) -> StoredRoot:
        """Return the stored root ``known`` with the location, options and descriptions of ``wanted``."""
        if not named and _is_elsewhere(known, wanted) and known.is_here():
            raise ConfigurationError(
                f"{self._backend.location}: its source {wanted.name!r} is {known.location}; to add "
                f"{wanted.location} as another source, give it another name: --source NAME (source=...)"
            )
        if not named and known.location == wanted.location and _has_other_patterns(known, wanted):
            raise ConfigurationError(
                f"{self._backend.location}: its source {wanted.name!r} reads {_files(known)} of {known.location}; to "
                f"read only {_files(wanted)} from now on, give the name of this source: --source {wanted.name!r} "
                "(source=...); to add these files as another source, give another name"
            )
        there = known if wanted.location is None else wanted
        files, more = (_single_files(each) for each in (known, wanted))
        if files and more and not (named or prune):
            there = replace(there, options={**there.options, "include": list(dict.fromkeys([*files, *more]))})
        described = {**known.described, **wanted.described}
        return replace(there, first=known.first, described={path: text for path, text in described.items() if text})

    def _new(self, roots: Mapping[str, StoredRoot], wanted: StoredRoot, *, named: bool, prune: bool) -> StoredRoot:
        """Return a new root as it is stored: without a prefix if it is the collection's first root, else with one."""
        if not roots:
            if prune and not named and self._backend.holds([RECORDS]):
                raise ConfigurationError(
                    f"{self._backend.location}: its documents were ingested without a source, so prune may remove "
                    f"documents that are not from {wanted.name!r}; if all are from that source, give its name once: "
                    f"--source {wanted.name!r} (source=...)"
                )
            return replace(wanted, first=True)
        prefix = wanted.name + SEPARATOR
        if any(source.startswith(prefix) for source in self._sources()):
            raise ConfigurationError(
                f"{self._backend.location}: some ids of its documents begin with {prefix!r} already; "
                "give the source another name: --source NAME (source=...)"
            )
        return replace(wanted, first=False)

    def _sources(self) -> Iterator[str]:
        return (point.payload["source"] for point in self._backend.scroll([RECORDS], ["source"]))

    def _change(self, change: Callable[[dict[str, StoredRoot]], dict[str, StoredRoot]]) -> None:
        """Write the roots that ``change`` returns, by compare-and-set; write nothing if they are unchanged."""
        for _ in range(_TRIES):
            roots, revision = self._read()
            changed = change(self._here(roots))
            if changed == roots:
                return
            written = uuid4().hex
            self._backend.commit([_point(changed, written)], [revision])
            self._backend.flush()
            if self._backend.exclusive or self._read()[1] == written:
                return
        raise StoreBusyError(f"{self._backend.location}: other writers keep changing its sources; try again")

    def _here(self, roots: Mapping[str, StoredRoot]) -> dict[str, StoredRoot]:
        """Return the roots as this machine sees them.

        Many machines use a server, and the same path may lead to other files on each. An embedded store has one
        machine, whose name may change: a laptop gets one from each network, and a container from each start.
        """
        return {name: root.found_here() if self._backend.exclusive else root for name, root in roots.items()}

    def _read(self) -> tuple[dict[str, StoredRoot], str | None]:
        stored = self._backend.retrieve([ROOTS]).get(ROOTS)
        if stored is None:
            return {}, None
        found = [StoredRoot.of_fields(each) for each in stored.payload["roots"]]
        return {each.name: each for each in found}, stored.payload["revision"]


def _is_elsewhere(known: StoredRoot, wanted: StoredRoot) -> bool:
    """Return whether both roots have a location, and the locations differ."""
    return wanted.location is not None and known.location not in (None, wanted.location)


def _has_other_patterns(known: StoredRoot, wanted: StoredRoot) -> bool:
    """Return whether ``wanted`` has include patterns other than the stored ones; two lists of single files agree."""
    before, now = (each.options.get("include", ()) for each in (known, wanted))
    return bool(now) and list(before) != list(now) and not (_single_files(known) and _single_files(wanted))


def _single_files(root: StoredRoot) -> Sequence[str]:
    """Return the include patterns if each pattern names one file of the folder, else an empty sequence."""
    patterns: Sequence[str] = root.options.get("include", ())
    plain = (re.sub(r"\\.", "", each) for each in patterns)  # escaped characters are no wildcards
    return patterns if all(each.startswith("/") and _WILD.isdisjoint(each) for each in plain) else ()


def _files(root: StoredRoot) -> str:
    patterns = root.options.get("include", ())
    return listed(patterns, _SHOWN) or "all files"


def _membership(roots: Mapping[str, StoredRoot], name: str | None) -> Membership:
    root = None if name is None else roots[name]
    others = tuple(each.prefix for each in roots.values() if not each.first)
    return Membership("" if root is None else root.prefix, others, root)


def _check_name(name: str) -> None:
    check_text(name, "source")
    if not name.strip() or SEPARATOR in name or not name.isprintable():
        raise ConfigurationError(
            f"{name!r} cannot name a source: expected printable text without {SEPARATOR!r}; "
            "give it another name: --source NAME (source=...)"
        )


def _point(roots: Mapping[str, StoredRoot], revision: str) -> Point:
    """Return the point that holds the roots: a note with a separate field for them, which filters do not read."""
    stored: Sequence[Mapping[str, Any]] = [each.as_fields() for each in roots.values()]
    note = {"kind": "note", "namespace": _NAMESPACE, "key": "", "metadata": {}}
    return Point(ROOTS, {**note, "revision": revision, "roots": list(stored)})
