"""Commits: how a source changes from one version to the next, so that one of them can be searched at any moment.

    1. intent    write a point that names the sources about to change
    2. chunks    write the chunks that only the new version has, and check that their model is still the collection's
    3. record    commit, by compare-and-set on the revision of the source's record
    4. clean-up  remove the chunks that only the old version has
    5. end       remove the intent, and make everything durable

A writer killed before step 3 leaves the old version committed; one killed later leaves the new one. Searches ignore
chunks that the record does not list; ``recover`` finds them by the intents and removes them. A writer that loses the
compare-and-set removes the chunks that only it wrote, and starts again from the winner's version.

A chunk has the same id whoever writes it, so one writer may rewrite a chunk that another is about to remove. Each chunk
therefore carries the revision of its commit, and a writer removes only revisions that it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

from twinvec_qdrant.records.description import check_current_model
from twinvec_qdrant.records.schema import CHUNKS, INTENTS, RECORDS, Record, intent_id, record_id
from twinvec_qdrant.records.writer_process import Writer
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.points import Point, pages

ABANDONED_SECONDS = 3600.0
"""Age at which an intent counts as abandoned if its writer's process cannot be checked; a live commit takes seconds."""

_REMOVED = 256
"""Sources removed at a time: one intent names them all and must fit into a request."""

_active: set[str] = set()  # intents of this process


@dataclass(frozen=True, slots=True)
class Change:
    """One source's next version: its record, the chunks to write, and the record it was planned from."""

    record: Record
    points: Sequence[Point]
    old: Record | None


class Catalog:
    """The records of the collection in ``backend``."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def records(self, sources: Iterable[str]) -> dict[str, Record]:
        """Return the records of the committed sources among these."""
        found = self.backend.retrieve([record_id(source) for source in sources])
        return {(record := Record.of_payload(point.payload)).source: record for point in found.values()}

    def sources(self) -> Iterator[str]:
        """Yield all committed sources."""
        return (point.payload["source"] for point in self.backend.scroll([RECORDS], ["source"]))

    def write(self, changes: Sequence[Change]) -> list[Change]:
        """Commit changes of different sources; return those that another writer won.

        Raise ``SpaceMismatchError``, and commit nothing, if the collection no longer uses the model of the vectors.
        """
        backend = self.backend
        old = self.revisions(chunk for change in changes if change.old for chunk in change.old.chunks)
        revisions = {*old.values(), *(change.record.revision for change in changes)}
        points = [point for change in changes for point in change.points]
        with self._intent([change.record.source for change in changes], revisions):
            backend.upsert(points)
            for vector in {point.vector for point in points}:  # a migration still encodes the chunks written by now
                check_current_model(backend, vector)
            backend.commit(
                [Point(record_id(change.record.source), change.record.as_payload()) for change in changes],
                [change.old.revision if change.old else None for change in changes],
            )
            now = self.records(change.record.source for change in changes)
            lost = [change for change in changes if not _holds(change.record, now.get(change.record.source))]
            backend.delete(list(_obsolete(changes, now)), revisions)
        return lost

    def remove(self, sources: Sequence[str]) -> Iterator[Record]:
        """Remove sources with their chunks while the caller iterates, and yield the records of those removed.

        A source that another writer updates at the same moment stays.
        """
        for page in pages(sources, _REMOVED):
            yield from self._remove(page)

    def revisions(self, chunks: Iterable[str]) -> dict[str, str]:
        """Return the revisions that chunks carry now, by id."""
        found = self.backend.retrieve(list(chunks), ["revision"])
        return {key: point.payload["revision"] for key, point in found.items()}

    def recover(self) -> None:
        """Remove the remains of killed writers."""
        for intent in list(self.backend.scroll([INTENTS])):
            if self._abandoned(intent):
                for source in intent.payload["sources"]:
                    self._clean(source, intent.payload["revisions"])
                self.backend.delete([intent.id])

    def _remove(self, sources: Sequence[str]) -> list[Record]:
        there = self.records(sources)
        if not there:
            return []
        revisions = set(self.revisions(chunk for record in there.values() for chunk in record.chunks).values())
        with self._intent(list(there), revisions):
            self.backend.delete([record_id(source) for source in there], [each.revision for each in there.values()])
            now = self.records(there)
            listed = {chunk for record in now.values() for chunk in record.chunks}
            chunks = [chunk for record in there.values() for chunk in record.chunks if chunk not in listed]
            self.backend.delete(chunks, revisions)
        return [record for source, record in there.items() if source not in now]

    def _clean(self, source: str, revisions: Sequence[str]) -> None:
        """Remove the chunks of an unfinished commit that the committed version does not list."""
        there = list(self.backend.scroll([field_is("source", source), CHUNKS], ["revision"]))
        record = self.records([source]).get(source)
        listed = set(record.chunks) if record else set()
        self.backend.delete([point.id for point in there if point.id not in listed], revisions)

    def _abandoned(self, intent: Point) -> bool:
        """Return whether the writer has certainly ended, or the intent is too old for a live one."""
        writer = Writer.of_payload(intent.payload)
        if self.backend.exclusive or writer == Writer.this():
            return intent.id not in _active
        gone = writer.gone()
        return time.time() - float(intent.payload["time"]) > ABANDONED_SECONDS if gone is None else gone

    @contextmanager
    def _intent(self, sources: list[str], revisions: Iterable[str]) -> Iterator[None]:
        """Keep a point with these sources and revisions until the end; after an error it stays for ``recover``."""
        key = intent_id(uuid4().hex)
        payload = {
            "kind": "intent",
            "sources": sources,
            "revisions": sorted(revisions),
            "time": time.time(),
            **Writer.this().as_payload(),
        }
        _active.add(key)
        try:
            self.backend.upsert([Point(key, payload)])
            yield
            self.backend.delete([key])
            self.backend.flush()
        finally:
            _active.discard(key)


def _obsolete(changes: Sequence[Change], now: dict[str, Record]) -> Iterator[str]:
    """Yield the chunks of replaced versions and lost commits that the committed version does not list."""
    for change in changes:
        current = now.get(change.record.source)
        listed = set(current.chunks) if current else set()
        if _holds(change.record, current):
            yield from (chunk for chunk in (change.old.chunks if change.old else ()) if chunk not in listed)
        else:
            yield from (point.id for point in change.points if point.id not in listed)


def _holds(record: Record, current: Record | None) -> bool:
    return current is not None and current.revision == record.revision
