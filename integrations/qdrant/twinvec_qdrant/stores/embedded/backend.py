"""An open collection of the embedded store: Qdrant's engine in this process, on disk.

All users of the collection in this process share one backend, and processes take turns at the engine (``engine``). The
engine stores no description; a file holds it. A search compares new vectors one by one until ``index_build`` indexes
them.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from twinvec.errors import StoreCorruptError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import Backend, FieldIndexType, indexed_chunks
from twinvec_qdrant.stores.conditions import Conditions, field_is
from twinvec_qdrant.stores.embedded.checksums import Checksums, named_files
from twinvec_qdrant.stores.embedded.engine import SharedEngine
from twinvec_qdrant.stores.embedded.folder import REMEDY, CollectionFolder
from twinvec_qdrant.stores.embedded.index_build import OUTDATED, WORTHWHILE, LastBuild, build_index_of
from twinvec_qdrant.stores.embedded.repair.salvage import forget
from twinvec_qdrant.stores.embedded.room import OPEN_ROOM, WRITE_ROOM, check_room
from twinvec_qdrant.stores.embedded.turns import Turns
from twinvec_qdrant.stores.embedded.values import (
    INDEX_PARAMS,
    TOKEN_STATES,
    counted,
    edge_filter,
    edge_point,
    edge_request,
    edge_sparse,
    index_types,
)
from twinvec_qdrant.stores.points import (
    SPARSE,
    STATES_PAGE,
    Point,
    Query,
    Scored,
    States,
    dense_vectors,
    in_batches,
    pages,
    payload_selector,
    scored,
    states_name,
    stored_point,
    stored_states,
    vector_selector,
    weighed_batches,
)
from twinvec_qdrant.stores.served_tests import fitted

_TELLING_FIELDS = frozenset({"kind", "source", "size", "text", "content"})
"""Payload fields of which each stored point has at least one."""

open_backends: dict[Path, EmbeddedBackend] = {}
"""The open backends of this process, by folder; hold ``opening`` to read or change them."""

opening = threading.Condition(threading.Lock())
"""The lock of ``open_backends`` and ``ending``; its waiters are notified when a backend has been closed."""

ending: set[EmbeddedBackend] = set()
"""The backends that are being closed for good; hold ``opening`` to read or change them."""


@contextmanager
def opening_of(path: Path) -> Iterator[None]:
    """Wait until no backend of this folder is being closed, and hold ``opening`` in the block."""
    with opening:
        opening.wait_for(lambda: all(each.place != path for each in ending))
        yield


class EmbeddedBackend(SharedEngine, Backend):
    """An open collection on disk, made by ``EmbeddedStore``; ``users`` counts how often this process has opened it."""

    exclusive = True  # other processes can read, but not write, while this one is in ``writing``
    erases = True

    def __init__(self, folder: CollectionFolder, turns: Turns, wait_seconds: float, *, repairs: bool) -> None:
        super().__init__(folder, turns, wait_seconds, repairs=repairs)
        self.place: Hashable = folder.path
        self.users = 1
        self.writing = self.writer

    def no_writers(self) -> AbstractContextManager[object, bool | None]:
        return nullcontext() if self.reads_copy() else self.writing

    def read_metadata(self) -> dict[str, Any]:
        self._check_there()
        return self._folder.read_description()

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        # takes the turn, because the checksums that a turn leaves include the description
        with self.writing, self._locked("write"):
            changed = {**self.read_metadata(), **changes}
            self._folder.write_description({key: value for key, value in changed.items() if value is not None})
            self._is_changed = True

    def upsert(self, points: Sequence[Point]) -> None:
        for batch, size in weighed_batches(points):
            room = 2 * OPEN_ROOM + 4 * size
            records = {each.id: str(each.payload.get("revision")) for each in batch if _is_record(each)}
            self._update(edge.UpdateOperation.upsert_points([edge_point(point) for point in batch]), room, records)

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        del expected  # no other thread or process can have written since the records were read
        self.upsert(records)

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        changes = [edge.PointVectors(key, {SPARSE: edge_sparse(vector)}) for key, vector in vectors.items()]
        for page in pages(changes):
            self._update(edge.UpdateOperation.update_vectors(page))

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        with self._locked("write"):
            self._forget_files(name)  # the engine removes files that a killed ``drop_vector`` has left
        self._update(edge.UpdateOperation.create_dense_vector(name, dim, edge.Distance.Cosine))
        if states_dim is not None:
            created = edge.UpdateOperation.create_dense_vector(
                states_name(name), states_dim, edge.Distance.Dot, TOKEN_STATES, edge.VectorStorageDatatype.Float16
            )
            self._update(created)
        self.flush()

    def drop_vector(self, name: str) -> None:
        with self._locked("write"):
            self._note_written()  # comes first, because the engine does not count dropped vectors
            self._forget_files(name)
            self._update(edge.UpdateOperation.delete_vector_name(name))
            self._update(edge.UpdateOperation.delete_vector_name(states_name(name)))
            self._count_from_now()
            self.flush()

    def _forget_files(self, vector: str) -> None:
        for each in (vector, states_name(vector)):
            self._folder.forget_files(f"-{each}/")

    def update_dense(self, points: Sequence[Point]) -> None:
        for batch in in_batches(points):
            changes = [edge.PointVectors(point.id, dense_vectors(point)) for point in batch]
            self._update(edge.UpdateOperation.update_vectors(changes))

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        del revisions  # no other process can have written the points again
        for page in pages(ids):
            self._update(edge.UpdateOperation.delete_points(list(page)), OPEN_ROOM, dict.fromkeys(page))

    def field_indexes(self) -> Mapping[str, str]:
        with self._locked("read"):
            return self._types

    def index_field(self, path: str, kind: FieldIndexType) -> None:
        if self.field_indexes().get(path) != kind:
            self._change_index(edge.UpdateOperation.create_field_index(path, INDEX_PARAMS[kind](on_disk=True)))

    def drop_field_index(self, path: str) -> None:
        self._change_index(edge.UpdateOperation.delete_field_index(path))

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index if it lacks at least ``WORTHWHILE`` chunks and a tenth of all, or always with ``force``.

        Also build it if at least ``OUTDATED`` chunks are outdated, and at least as many as are current; the build frees
        the disk room of outdated chunks. With ``force``, the build also removes all deleted and replaced data from the
        files and from the engine's log.

        An error leaves the collection as before: ``StoreUnavailableError`` on a full disk, else ``StoreError``.
        """
        with self.writing:
            chunks = self.count([field_is("kind", "chunk")])
            last = LastBuild.read(self._folder.shard)
            missing, outdated = self._missing_and_outdated(chunks)
            worthwhile = force or missing >= max(WORTHWHILE, chunks // 10)
            if not worthwhile and outdated < max(OUTDATED, chunks):
                return False
            with self._locked("copy"):
                self._shard.flush()
                copy = self._folder.copy_shard()
            had_index = last is not None and last.with_index
            with_index = had_index or force or chunks >= WORTHWHILE
            build_index_of(copy, settings, self.location, with_index=with_index, erase=force)
            self._folder.list_copy(copy)
            with self._locked("exchange"):
                self._shard.close()
                try:
                    self._folder.put_copy_in_place(copy)
                finally:
                    self._folder.settle(was_given=True)
                    self._is_changed = True
                    self._load()
            return True

    def indexed(self, chunks: int) -> int:
        return chunks - self._missing_and_outdated(chunks)[0]

    def _missing_and_outdated(self, chunks: int) -> tuple[int, int]:
        """Return how many chunks the index lacks, and how many outdated versions of chunks the engine keeps.

        If the last build is unknown, both numbers are estimates, which are too small if many chunks are outdated. If a
        migration has added a dense vector since the last build, the index lacks all chunks.
        """
        with self._locked("read"):
            vectors, names = self._shard.info().indexed_vectors_count, self._folder.dense_names()
            last, written = LastBuild.read(self._folder.shard), self._written()
        if last is None:
            return chunks - indexed_chunks(self, vectors, chunks, names), vectors - (1 + len(names)) * chunks
        written += last.written
        has_index = last.with_index and set(names) <= set(last.names)
        return min(written, chunks) if has_index else chunks, last.chunks + written - chunks

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        with self._locked("read"):
            records = self._shard.retrieve(list(ids), payload_selector(fields), vector_selector(vector))
        points = [stored_point(record, vector) for record in records]
        self._check_whole(points, fields)
        return {point.id: point for point in points}

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        found: dict[str, States] = {}
        for page in pages(ids, STATES_PAGE):
            with self._locked("read"):
                records = self._shard.retrieve(list(page), [], [states_name(vector)])
            found |= stored_states(records, vector)
        return found

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        offset = None
        while True:
            with self._locked("read"):
                records, offset = self._page(conditions, fields, offset)
            points = list(map(stored_point, records))
            self._check_whole(points, fields)
            yield from points
            if offset is None:
                return

    def _check_whole(self, points: Iterable[Point | Scored], fields: Sequence[str] | None) -> None:
        """Raise ``StoreCorruptError`` if a point has no payload, although ``fields`` has a field that each point has.

        After damage, the engine may find deleted points again, without their content.
        """
        is_expected = not self._repairs and (fields is None or not _TELLING_FIELDS.isdisjoint(fields))
        if is_expected and not all(point.payload for point in points):
            raise StoreCorruptError(f"{self.location}: the content of a stored point is missing; {REMEDY}")

    def count(self, conditions: Conditions) -> int:
        with self._locked("count"):  # the lock keeps the indexes unchanged until the filter is used
            return counted(self._shard, edge_filter(fitted(conditions, self._types)))

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        with self._locked("search"):
            requests = [
                edge_request(replace(query, conditions=fitted(query.conditions, self._types))) for query in queries
            ]
            found = self._shard.query_batch(edge.QueryBatchRequest(requests))
        answers = [scored(points) for points in found]
        for query, points in zip(queries, answers, strict=True):
            self._check_whole(points, query.fields)
        return answers

    def check_files(self) -> None:
        """Close the engine, read all its files, and raise ``StoreCorruptError`` if one is missing or changed.

        Closing the engine takes new checksums of changed files, so that damage may pass for a change by the engine. The
        files are therefore also compared with the checksums of the close before: only some changes can come from the
        engine (``Checksums.contradicted``).
        """
        with self.undisturbed():
            before = Checksums.read(self._folder.opened)
            with self.at_rest() as folder:
                known = Checksums.read(folder.closed)
                damaged = [] if known is None else known.damaged(folder.shard, thorough=True)
                if before is not None:  # when the engine opens the files, it replaces a damaged payload index
                    damaged += before.without("/payload_index/").contradicted(folder.shard, thorough=True)
                if damaged:
                    raise StoreCorruptError(
                        f"{self.location}: {named_files(sorted(set(damaged)))} missing or changed; {REMEDY}"
                    )

    def end_repair(self) -> None:
        forget(self._folder.shard)
        self.damage = None

    def close(self) -> None:
        """End one use of the backend; the end of the last use closes the engine for good."""
        with opening:
            self.users -= 1
            if self.users:
                return
            if open_backends.get(self._original.path) is self:
                del open_backends[self._original.path]
            ending.add(self)
        try:
            # ``opening`` is not held here, so that other collections can be opened; closing may take a second
            self.end()
        finally:
            with opening:
                ending.discard(self)
                opening.notify_all()

    def _update(
        self, operation: edge.UpdateOperation, room: int = WRITE_ROOM, points: Mapping[str, str | None] | None = None
    ) -> None:
        """Let the engine write; see ``ExpectedRecords.writing`` for ``points``."""
        self._check_there()
        check_room(self._original.path, room)
        with self.writing, self._locked("write"):
            self._is_changed = True
            with self._expected.writing(self._shard, points or {}):
                self._shard.update(operation)

    def _change_index(self, operation: edge.UpdateOperation) -> None:
        with self.writing, self._locked("write"):
            self._folder.forget_files("/payload_index/")
            self._update(operation)
            self._types = index_types(self._shard.info())


def _is_record(point: Point) -> bool:
    return point.payload.get("kind") == "record"
