"""Qdrant's engine in this process, on disk.

One folder a collection, one process at a time (``folder``); within a process, everyone who opens the same
collection shares one engine. New vectors are compared one by one, until an index is built (``edge_index``).

What the engine does not have is made here: the collection's description is a file beside it, and every exception,
panics included, comes out as a ``StoreError``.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from twinvec.errors import StoreBusyError, StoreCorruptError, StoreError, StoreUnavailableError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import INDEXED_FIELDS, NewCollection
from twinvec_qdrant.stores.conditions import Conditions, field_is
from twinvec_qdrant.stores.counting import indexed_chunks
from twinvec_qdrant.stores.embedded.folder import CollectionFolder, collection_names
from twinvec_qdrant.stores.embedded.index_build import WORTHWHILE, build_aside
from twinvec_qdrant.stores.embedded.values import edge_filter, edge_point, edge_request, edge_sparse, point_of
from twinvec_qdrant.stores.points import (
    DENSE,
    SPARSE,
    Point,
    Query,
    Scored,
    States,
    dense_vectors,
    in_batches,
    size_of,
    states_name,
    stored_states,
)

_PAGE = 1000
_STATES = 32  # points a page whose token states are read
_ROOM = 32 * 2**20  # bytes that a page of vectors may take in the engine's log and files, and then some
_ROOM_TO_DELETE = 4 * 2**20

_LATE_INTERACTION = edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)

_open: dict[Path, EmbeddedBackend] = {}
_opening = threading.Lock()


class EmbeddedBackend:
    """An open collection on disk. Made by ``EmbeddedStore``; ``close`` gives back one opening."""

    exclusive = True

    def __init__(self, folder: CollectionFolder, shard: edge.EdgeShard) -> None:
        self.location = str(folder.path)
        self.place: Hashable = folder.path
        self.users = 1
        self.writing: AbstractContextManager[object, bool | None] = threading.RLock()
        self._folder = folder
        self._shard = shard
        self._turn = threading.RLock()  # one thread at a time; the engine holds the interpreter's lock in any case

    def read_metadata(self) -> dict[str, Any]:
        """The collection's own description.

        Raises:
            StoreCorruptError: it is missing or cannot be read.
        """
        return self._folder.read_description()

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        """Set these keys of it, at once; None removes one, and the others stay."""
        changed = {**self.read_metadata(), **changes}
        self._folder.write_description({key: value for key, value in changed.items() if value is not None})

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points; the same id again replaces."""
        for batch in in_batches(points):
            room = 2 * _ROOM_TO_DELETE + 4 * sum(map(size_of, batch))
            self._update(edge.UpdateOperation.upsert_points([edge_point(point) for point in batch]), room)

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        """Write the records: nobody else can have written since they were read."""
        del expected
        self.upsert(records)

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        """Replace the sparse vectors of stored points, by id."""
        changes = [edge.PointVectors(key, {SPARSE: edge_sparse(vector)}) for key, vector in vectors.items()]
        for start in range(0, len(changes), _PAGE):
            self._update(edge.UpdateOperation.update_vectors(changes[start : start + _PAGE]))

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        """Give points room for one more dense vector, and for token states of this size beside it."""
        self._update(edge.UpdateOperation.create_dense_vector(name, dim, edge.Distance.Cosine))
        if states_dim is not None:
            created = edge.UpdateOperation.create_dense_vector(
                states_name(name), states_dim, edge.Distance.Dot, _LATE_INTERACTION, edge.VectorStorageDatatype.Float16
            )
            self._update(created)
        self.flush()

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector and its token states from all points; nothing changes where there are none."""
        self._update(edge.UpdateOperation.delete_vector_name(name))
        self._update(edge.UpdateOperation.delete_vector_name(states_name(name)))
        self.flush()

    def update_dense(self, points: Sequence[Point]) -> None:
        """Replace the dense vectors of stored points, and the token states that come with them, both at once."""
        for batch in in_batches(points):
            changes = [edge.PointVectors(point.id, dense_vectors(point)) for point in batch]
            self._update(edge.UpdateOperation.update_vectors(changes))

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        """Remove points: nobody else can have written them anew since they were read."""
        del revisions
        for start in range(0, len(ids), _PAGE):
            self._update(edge.UpdateOperation.delete_points(list(ids[start : start + _PAGE])), _ROOM_TO_DELETE)

    def flush(self) -> None:
        """Make all that was written durable: the engine's log keeps the order, but is not forced to the disk."""
        with self._translated("write"):
            self._shard.flush()

    def begin_load(self, tenant_path: str | None) -> None:
        """Nothing to do: a collection is made with its payload indexes or not at all, no other is built unasked."""

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index where it lacks many vectors, and a tenth of all, or with ``force``; whether it was done.

        Raises:
            StoreUnavailableError: the disk has no room for it.
            StoreError: the engine could not build it; all is as before.
        """
        with self.writing:
            chunks = self.count([field_is("kind", "chunk")])
            missing = chunks - self.indexed(chunks)
            if not force and missing < max(WORTHWHILE, chunks // 10):
                return False
            self.flush()
            copy = build_aside(self._folder, settings)
            with self._translated("exchange"):
                self._shard.close()
                try:
                    self._folder.put_copy_in_place(copy)
                finally:
                    self._folder.settle()
                    self._shard = _load(self._folder.shard)
            return True

    def indexed(self, chunks: int) -> int:
        """About how many of so many chunks have their dense vectors in the index."""
        with self._translated("read"):
            vectors, names = self._shard.info().indexed_vectors_count, self._folder.dense_names()
        return indexed_chunks(self, vectors, chunks, names)

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        """The points that are there, by id; ``fields`` None for the whole payload, ``vector`` names a dense one."""
        with_payload = True if fields is None else list(fields)
        with_vector = [vector] if vector else False
        with self._translated("read"):
            records = self._shard.retrieve(list(ids), with_payload, with_vector)
        return {point.id: point for point in (point_of(record, vector) for record in records)}

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        """The token states beside the dense vector of this name, by id, of those points that have them."""
        found: dict[str, States] = {}
        for start in range(0, len(ids), _STATES):
            with self._translated("read"):
                records = self._shard.retrieve(list(ids[start : start + _STATES]), [], [states_name(vector)])
            found |= stored_states(records, vector)
        return found

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        """All points that satisfy the conditions, without vectors, in the order of their ids."""
        with_payload = True if fields is None else list(fields)
        offset = None
        while True:
            request = edge.ScrollRequest(offset, _PAGE, edge_filter(conditions), with_payload, False)
            with self._translated("read"):
                records, offset = self._shard.scroll(request)
            yield from map(point_of, records)
            if offset is None:
                return

    def count(self, conditions: Conditions) -> int:
        """How many points satisfy the conditions, exactly."""
        with self._translated("count"):
            return self._shard.count(edge.CountRequest(exact=True, filter=edge_filter(conditions)))

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        """For each query the best points, best first."""
        requests = [edge_request(query) for query in queries]
        with self._translated("search"):
            found = self._shard.query_batch(edge.QueryBatchRequest(requests))
        return [[Scored(str(each.id), each.score, each.payload or {}) for each in points] for points in found]

    def close(self) -> None:
        """Give back one opening; the last one closes the engine and lets other processes in."""
        with _opening:
            self.users -= 1
            if self.users == 0:
                del _open[self._folder.path]
                try:
                    with self._translated("close"):
                        self._shard.close()
                finally:
                    self._folder.release()

    def _update(self, operation: edge.UpdateOperation, room: int = _ROOM) -> None:
        self._folder.check_room(room)
        with self._translated("write"):
            self._shard.update(operation)

    @contextmanager
    def _translated(self, action: str) -> Iterator[None]:
        with self._turn, _translated(self.location, action):
            yield


class EmbeddedStore:
    """The collection ``name`` below the folder ``path``.

    Raises:
        ConfigurationError: the name cannot be the name of a folder.
    """

    def __init__(self, path: str | Path, name: str, wait_seconds: float) -> None:
        self._path = path
        self._folder = CollectionFolder(path, name)
        self.location = str(self._folder.path)
        self._wait_seconds = wait_seconds

    def peek(self) -> dict[str, Any] | None:
        """The collection's description, None where there is no collection; opens and writes nothing.

        Raises:
            StoreCorruptError: it cannot be read.
        """
        return self._folder.read_description() if self._folder.exists() else None

    def neighbours(self) -> str:
        """Where the collection would be and what else is there, for the message that there is no such collection."""
        return f"in {self._path}; there are: {', '.join(collection_names(self._path)) or 'none'}"

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """The description of every collection below the same path, by name; empty where it cannot be read."""
        found: dict[str, dict[str, Any]] = {name: {} for name in collection_names(self._path)}
        for name in found:
            with suppress(StoreCorruptError):
                found[name] = CollectionFolder(self._path, name).read_description()
        return found

    def drop(self) -> None:
        """Remove the collection with its folder; nothing happens where there is none.

        Raises:
            StoreBusyError: it is open, in this process or for longer than ``wait_seconds`` in another.
            StoreUnavailableError: the folder cannot be removed.
        """
        folder = self._folder
        if not folder.path.is_dir():
            return
        with _opening:
            if folder.path in _open:
                raise StoreBusyError(f"{folder.path}: open in this process; close it before it is dropped")
            folder.acquire(self._wait_seconds)
            try:
                folder.remove()
            finally:
                folder.release()

    def open(self) -> EmbeddedBackend:
        """The collection that is there.

        Raises:
            StoreBusyError: another process holds it for longer than ``wait_seconds``.
            StoreUnavailableError: the folder cannot be written.
            StoreCorruptError: what is there cannot be read.
        """
        return self._open(None)

    def create(self, new: NewCollection) -> EmbeddedBackend:
        """Make the collection, unless there is one by now; errors as for ``open``."""
        return self._open(new)

    def close(self) -> None:
        """Nothing was needed to look."""

    def _open(self, new: NewCollection | None) -> EmbeddedBackend:
        folder = self._folder
        with _opening:
            if (shared := _open.get(folder.path)) is not None:
                shared.users += 1
                return shared
            folder.acquire(self._wait_seconds)
            try:
                folder.settle()
                if not folder.exists() and new is not None:
                    _create(folder, new)
                with _translated(str(folder.path), "open", StoreCorruptError):
                    shard = _load(folder.shard)
            except BaseException:
                folder.release()
                raise
            backend = _open[folder.path] = EmbeddedBackend(folder, shard)
            return backend


def _create(folder: CollectionFolder, new: NewCollection) -> None:
    """Make the engine's files aside and rename them: a folder named ``shard`` is complete."""
    folder.check_room(_ROOM)
    aside = folder.path / "shard.new"
    vectors = {DENSE: edge.EdgeVectorParams(size=new.dim, distance=edge.Distance.Cosine)}
    if new.states_dim is not None:
        vectors[states_name(DENSE)] = edge.EdgeVectorParams(
            size=new.states_dim,
            distance=edge.Distance.Dot,
            multivector_config=_LATE_INTERACTION,
            datatype=edge.VectorStorageDatatype.Float16,
            memory=edge.Memory.Cold,
        )
    config = edge.EdgeConfig(
        vectors=vectors,
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
    )
    with _translated(str(folder.path), "create"):
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        shard = edge.EdgeShard.create(str(aside), config)
        for field in INDEXED_FIELDS:
            shard.update(edge.UpdateOperation.create_field_index(field, edge.PayloadSchemaType.Keyword))
        if new.tenant_path is not None:
            tenants = edge.KeywordIndexParams(is_tenant=True)
            shard.update(edge.UpdateOperation.create_field_index(new.tenant_path, tenants))
        shard.flush()
        shard.close()
        folder.write_description(new.metadata)
        aside.rename(folder.shard)


def _load(path: Path) -> edge.EdgeShard:
    """Open the engine's files.

    Killed while it adds or drops a vector, the engine leaves segments and a configuration that differ, and refuses
    both. Without its file, it takes the configuration from the segments.
    """
    try:
        return edge.EdgeShard.load(str(path))
    except Exception as error:
        if "config is incompatible with existing segments" not in str(error):
            raise
        (path / "edge_config.json").unlink()
        return edge.EdgeShard.load(str(path))


@contextmanager
def _translated(location: str, action: str, otherwise: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn what the engine raises, mostly plain ``Exception``, into one of ours."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except OSError as error:
        raise StoreUnavailableError(f"{location}: could not {action}: {error}") from error
    except BaseException as error:  # a panic of the engine is no Exception
        kind = StoreUnavailableError if "No space left" in str(error) else otherwise
        raise kind(f"{location}: the engine could not {action}: {error}") from error
