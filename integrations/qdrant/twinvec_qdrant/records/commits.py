"""Commits: how a document changes from one version to the next; searches find one of the two at any moment.

A document is called "source" here and in the store's payloads.

    1. intent    write a point that names the sources about to change (``intents``)
    2. chunks    write the chunks that only the new version has, and check that their model is still the collection's
    3. record    commit, by compare-and-set on the revision of the source's record
    4. clean-up  remove the chunks that only the old version has
    5. end       remove the intent, and make everything durable

A writer killed before step 3 leaves the old version committed; a writer killed later leaves the new version. Searches
ignore chunks that the record does not list. The next writer finds these chunks by the intents (``Leftovers``), may use
their vectors again, and removes them. A writer that loses the compare-and-set removes the chunks that only it wrote,
and starts again from the winner's version.

The chunks of a document that takes long to encode are written in parts before the commit, under an intent of their own
(``Draft``).

The id of a chunk depends on its content only, so one writer may rewrite a chunk that another is about to remove. Each
chunk therefore has the revision of its commit, and a writer removes only revisions that it has seen. After the commit,
a writer checks whether another writer has removed or rewritten its chunks meanwhile, and writes such chunks again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from itertools import compress

from twinvec.errors import StoreFullError
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.description import check_current_model
from twinvec_qdrant.records.intents import Intents, new_intent
from twinvec_qdrant.records.roots import Membership, Roots
from twinvec_qdrant.records.schema import CHUNKS, RECORDS, Record, record_id
from twinvec_qdrant.records.writer_process import Writer
from twinvec_qdrant.stored_roots import StoredRoot
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Point, pages

_REMOVED = 256
"""Sources removed at a time: one intent names them all and must fit into a request."""


@dataclass(slots=True)
class Draft:
    """A source's next version before its commit: the chunks that are already written, and their intent."""

    source: str
    revision: str
    intent: str = field(default_factory=new_intent)
    chunks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one source to its next version.

    Attributes:
        record: The new record.
        points: The chunks of the new version.
        old: The record that the change was planned from; None for a new source.
        draft: The draft by which chunks were written before; they are written again only if they are gone.
        space: The space of the chunks' vectors.
    """

    record: Record
    points: Sequence[Point]
    old: Record | None
    draft: Draft | None = None
    space: str = ""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The leftovers of killed writers: their intents, and the sources that the intents name."""

    intents: Sequence[Point]
    sources: frozenset[str]


class Catalog:
    """The records of the collection in ``backend``; the totals of its BM25 weights follow the commits."""

    def __init__(self, backend: Backend, weights: BM25Weights) -> None:
        self.backend = backend
        self.weights = weights
        self._intents = Intents(backend)

    def records(self, sources: Iterable[str]) -> dict[str, Record]:
        """Return the records of these sources, by source; uncommitted sources have none."""
        found = self.backend.retrieve([record_id(source) for source in sources])
        return {(record := Record.of_payload(point.payload)).source: record for point in found.values()}

    def sources(self) -> Iterator[str]:
        """Yield all committed sources."""
        return (point.payload["source"] for point in self.backend.scroll([RECORDS], ["source"]))

    def has_documents(self, membership: Membership) -> bool:
        """Return whether documents of a root are stored, or being stored by a live writer."""
        # the intents are read first: a writer removes its intent after it has written the records
        return any(map(membership.has, self._intents.running())) or any(map(membership.has, self.sources()))

    def remove_root(self, membership: Membership) -> None:
        """Remove a root without documents; keep it if another process stores documents meanwhile."""
        assert membership.root is not None
        roots = Roots(self.backend)
        if self.backend.exclusive:
            roots.remove(membership.root.name)
            return
        with self._intent([], [], root=membership.root, removing=True):
            roots.remove(membership.root.name)
            if self.has_documents(membership):
                roots.keep(membership.root)

    def write(self, changes: Sequence[Change], root: StoredRoot | None = None) -> list[Change]:
        """Commit changes of different sources, with their drafts; return the changes that lost to another writer.

        If another process has removed ``root``, the root of the sources, the root is added again before the commit. A
        process that removes the root later sees the intent, and keeps the root.

        If the collection has changed to another model, raise ``SpaceMismatchError`` and commit nothing.
        """
        backend = self.backend
        old = self.revisions(chunk for change in changes if change.old for chunk in change.old.chunks)
        # the writer of an old revision may still rewrite the chunks of that revision
        former = (change.old.revision for change in changes if change.old)
        revisions = {*old.values(), *former, *(change.record.revision for change in changes)}
        records = [Point(record_id(change.record.source), change.record.as_payload()) for change in changes]
        points = [point for change in changes for point in self._unwritten(change)]
        vectors = {(point.vector, change.space) for change in changes for point in change.points}
        with self._intent([change.record.source for change in changes], revisions, root=root):
            backend.upsert(points)
            for vector, space in vectors:  # a migration that begins after this check encodes the chunks just written
                check_current_model(backend, vector, space)
            if root is not None:
                Roots(backend).keep(root)
            backend.commit(records, [change.old.revision if change.old else None for change in changes])
            won = [True] * len(changes)
            taken: list[Point] = []
            if not backend.exclusive:
                written = [point.id for change in changes for point in change.points]
                now = self.revisions([*(record.id for record in records), *written])
                won = [
                    now.get(record.id) == change.record.revision
                    for record, change in zip(records, changes, strict=True)
                ]
                taken = _taken(compress(changes, won), now)
                backend.upsert(taken)
            lost = [change for change, is_won in zip(changes, won, strict=True) if not is_won]
            # another writer's newer version may not list the chunks that were just written again
            backend.delete([*_replaced(changes, won), *self._wasted(changes if taken else lost)], revisions)
            self._intents.remove([change.draft.intent for change in changes if change.draft and change.draft.chunks])
        for change in compress(changes, won):
            self.weights.changed(change.old, change.record)
            self.weights.written(point.payload["text"] for point in change.points)
        return lost

    def stage(self, draft: Draft, points: Sequence[Point]) -> None:
        """Write chunks before their commit, under an intent by which the next writer finds them after a kill."""
        self._intents.write(draft.intent, [draft.source], [draft.revision])
        draft.chunks += [point.id for point in points]
        self.backend.upsert(points)
        self.backend.flush()

    def discard(self, draft: Draft) -> None:
        """Remove the chunks of a document that will not be committed."""
        if draft.chunks:
            self._clean(draft.source, [draft.revision])
            self._intents.remove([draft.intent])

    def leave(self, drafts: Iterable[Draft]) -> None:
        """Leave drafts to the next writer, because this writer ends before their commit."""
        self._intents.leave([draft.intent for draft in drafts])

    def remove(self, sources: Sequence[str]) -> Iterator[Record]:
        """Remove sources and their chunks while the caller iterates, and yield the records of removed sources.

        A source that another writer updates at the same moment stays.
        """
        for page in pages(sources, _REMOVED):
            yield from self._remove(page)

    def revisions(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the present revisions of chunks or records, by id."""
        found = self.backend.retrieve(list(ids), ["revision"])
        # another program may have replaced the payload of a chunk
        return {key: point.payload["revision"] for key, point in found.items() if "revision" in point.payload}

    def leftovers(self, ended: Collection[Writer] = ()) -> Leftovers:
        """Return the leftovers of killed writers, and of writers that have ``ended`` for certain."""
        intents = self._intents.abandoned(ended)
        return Leftovers(intents, frozenset(source for intent in intents for source in intent.payload["sources"]))

    def clear(self, leftovers: Leftovers) -> None:
        """Remove the chunks and intents of killed writers, except committed chunks; add roots with documents again."""
        for intent in leftovers.intents:
            for source in intent.payload["sources"]:
                self._clean(source, intent.payload["revisions"])
            if "root" in intent.payload:
                Roots(self.backend).keep_with_documents(StoredRoot.of_fields(intent.payload["root"]))
            self._intents.remove([intent.id])

    def recover(self) -> None:
        """Find and remove the leftovers of killed writers."""
        self.clear(self.leftovers())

    def _remove(self, sources: Sequence[str]) -> list[Record]:
        there = self.records(sources)
        if not there:
            return []
        revisions = set(self.revisions(chunk for record in there.values() for chunk in record.chunks).values())
        with self._intent(list(there), revisions, removing=True):
            self.backend.delete([record_id(source) for source in there], [each.revision for each in there.values()])
            now = self.records(there)
            listed = {chunk for record in now.values() for chunk in record.chunks}
            chunks = [chunk for record in there.values() for chunk in record.chunks if chunk not in listed]
            self.backend.delete(chunks, revisions)
        removed = [record for source, record in there.items() if source not in now]
        for record in removed:
            self.weights.changed(record, None)
        return removed

    def _clean(self, source: str, revisions: Sequence[str]) -> None:
        """Remove the chunks of these revisions that the committed version of the source does not list."""
        there = list(self.backend.scroll([field_is("source", source), CHUNKS], ["revision"]))
        record = self.records([source]).get(source)
        listed = set(record.chunks) if record else set()
        self.backend.delete([point.id for point in there if point.id not in listed], revisions)

    def _unwritten(self, change: Change) -> Sequence[Point]:
        """Return the points of a change that its draft has not written, or that were removed after that."""
        if change.draft is None:
            return change.points
        there = self.revisions(change.draft.chunks)
        return [point for point in change.points if there.get(point.id) != change.draft.revision]

    def _wasted(self, lost: Sequence[Change]) -> Iterator[str]:
        """Yield the chunks of lost commits that the winner's version does not list."""
        now = self.records(change.record.source for change in lost) if lost else {}
        for change in lost:
            current = now.get(change.record.source)
            listed = set(current.chunks) if current else set()
            yield from (point.id for point in change.points if point.id not in listed)

    @contextmanager
    def _intent(
        self, sources: list[str], revisions: Iterable[str], *, removing: bool = False, root: StoredRoot | None = None
    ) -> Iterator[None]:
        """Write an intent for these sources and revisions, and remove it at the end; after an error, the intent stays.

        A full collection refuses the intent, so sources are removed from it without an intent.
        """
        key = new_intent()
        try:
            with suppress(StoreFullError) if removing else nullcontext():
                self._intents.write(key, sources, revisions, None if self.backend.exclusive else root)
            yield
            self._intents.remove([key])
            self.backend.flush()
        finally:
            self._intents.leave([key])


def _taken(changes: Iterable[Change], now: Mapping[str, str]) -> list[Point]:
    """Return the committed chunks that another writer has removed, or has rewritten and may remove later."""
    return [point for change in changes for point in change.points if now.get(point.id) != change.record.revision]


def _replaced(changes: Sequence[Change], won: Sequence[bool]) -> Iterator[str]:
    """Yield the chunks of replaced versions that the new versions do not list."""
    for change, is_won in zip(changes, won, strict=True):
        if is_won and change.old is not None:
            listed = set(change.record.chunks)
            yield from (chunk for chunk in change.old.chunks if chunk not in listed)
