"""The protocols of a store, and two helpers that work with every store.

A backend holds the points of one collection; it knows nothing of documents, models or commits. ``stores/embedded`` and
``stores/server`` implement the protocols, and ``tests/congruence/test_backends.py`` holds both to the same behaviour:

- Writes take effect in order: after a crash, a later write never exists without the earlier ones.
- Points may lack vectors. Searches and document frequencies ignore those; ``retrieve`` and ``scroll`` return them too.
- A backend raises the exceptions of its engine or client as ``StoreError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from twinvec.errors import ConfigurationError, StoreError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import DEFAULT_CLUSTER, DEFAULT_INDEX, ClusterSettings, IndexSettings, ReadConsistency
from twinvec_qdrant.stores.candidates import Along, Candidates, Search, find_candidates
from twinvec_qdrant.stores.conditions import Conditions, LacksVector, field_is
from twinvec_qdrant.stores.points import DENSE, Point, Query, Scored, States
from twinvec_qdrant.stores.steps import Steps, run, worked

T = TypeVar("T")

FieldIndexType = Literal["keyword", "float", "bool", "datetime", "text", "geo"]
"""The types of payload indexes that stores make. Texts are indexed with their phrases."""

INDEXED_FIELDS = ("kind", "source")
"""Payload fields of twinvec that have a keyword index in every store."""

OWN_FIELDS = (*INDEXED_FIELDS, "revision", "content", "namespace")
"""Payload fields of twinvec that filters name: a server in strict mode refuses a filter on a field without an index."""


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a store needs to create a collection; the payload field at ``tenant_path`` names the tenant.

    ``vector`` is the name of the dense vectors.
    """

    dim: int
    metadata: Mapping[str, Any]
    index: IndexSettings = DEFAULT_INDEX
    tenant_path: str | None = None
    states_dim: int | None = None
    cluster: ClusterSettings = DEFAULT_CLUSTER
    vector: str = DENSE


@dataclass(frozen=True, slots=True)
class Damage:
    """Damaged files, empty if the engine alone refused them; and how many points of each kind there were, if known."""

    files: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Store(Protocol):
    """The place of one collection, which may or may not exist."""

    location: str
    """Folder or address for messages, without secrets."""

    def peek(self) -> dict[str, Any] | None:
        """Return the collection's description, or None if the collection does not exist; opens and writes nothing."""

    def neighbours(self) -> str:
        """Return the place and its collections, for the message that this collection does not exist."""

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """Return the description of every collection of the place, by name; {} for one that cannot be read."""

    def open(self) -> Backend:
        """Open the existing collection."""

    def create(self, new: NewCollection) -> Backend:
        """Create the collection; opens the one that another process creates at the same moment."""

    def drop(self) -> None:
        """Remove the collection and all it holds; does nothing if it does not exist."""

    def close(self) -> None:
        """Release the place, if neither ``open`` nor ``create`` has returned a backend; a folder needs no release."""
        return


class Backend(Protocol):
    """One collection in a store."""

    location: str
    """Folder or address for messages, without secrets."""

    place: Hashable
    """Equal for two backends of the same collection."""

    exclusive: bool
    """Whether no other process can write while this one is in ``writing``."""

    erases: bool = False
    """Whether ``build_index`` with ``force`` removes what was deleted or replaced from the store's files."""

    writing: AbstractContextManager[object, bool | None]
    """The lock of the writer, among the threads that share this backend, and among processes if ``exclusive``."""

    damage: Damage | None = None
    """The damage from which the collection has been saved, until ``end_repair``."""

    def no_writers(self) -> AbstractContextManager[object, bool | None]:
        """Return what keeps writers out while all that is stored is read: ``writing``, unless nobody can write."""
        return self.writing

    def undisturbed(self) -> AbstractContextManager[object, bool | None]:
        """Return a context in which an embedded store serves no other thread or process; a server serves all."""
        return nullcontext()

    def check_files(self) -> None:
        """Raise ``StoreCorruptError`` if the store's own files are not as written; a server checks its files itself."""
        return

    def end_repair(self) -> None:
        """Note that all that was damaged is repaired, or marked for the next ingest."""
        return

    def cluster(self) -> ClusterSettings | None:
        """Return how the server keeps the collection; None for a store that is no server."""
        return None

    def change_cluster(self, wanted: ClusterSettings) -> None:
        """Change how the server keeps the collection; raise ``ConfigurationError`` for what cannot change."""
        raise ConfigurationError(f"{self.location}: settings of a cluster are for a server")

    def read_consistently(self, consistency: ReadConsistency | None) -> None:
        """Set how many copies a read asks; None takes the number that the collection records.

        An embedded store has one copy.
        """
        return

    def read_metadata(self) -> dict[str, Any]:
        """Return the collection's description; {} if twinvec did not create the collection."""

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        """Set these keys of the description in one write; None removes a key, and all other keys stay."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points; a point replaces the stored point with the same id."""

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        """Write each record only if the stored one has the expected ``revision`` (None: if no record is stored).

        The call reports no conflict: read the records back to see which were written.
        """

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        """Replace the sparse vectors of stored points, by id."""

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        """Give points another dense vector, and token states of size ``states_dim`` if set; ignore a known name."""

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector and its token states from all points; ignore an unknown name."""

    def update_dense(self, points: Sequence[Point]) -> None:
        """Replace the dense vectors of stored points, and their token states in the same write."""

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        """Remove existing points; with ``revisions``, only those whose ``revision`` is among them at that moment."""

    def flush(self) -> None:
        """Make all writes durable; a server has made them so before they return."""
        return

    def field_indexes(self) -> Mapping[str, str]:
        """Return the type of every payload index, by its path."""

    def index_field(self, path: str, kind: FieldIndexType) -> None:
        """Index the payload field at the path; the index replaces one of another type."""

    def drop_field_index(self, path: str) -> None:
        """Remove the index of the payload field at the path; ignore a field without one."""

    def begin_load(self, tenant_path: str | None) -> None:
        """Index the payload fields of an empty collection; the vectors wait for ``build_index``.

        A new embedded collection has these indexes, and its engine builds no index by itself.
        """
        return

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index if much of it is missing, or always with ``force``; return whether it did.

        With ``force``, a store that ``erases`` also removes from its files what was deleted or replaced before.
        Searches continue meanwhile; writers wait.
        """

    def indexed(self, chunks: int) -> int:
        """Estimate how many of the collection's ``chunks`` have their dense vectors in the index."""

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        """Return the existing points, by id, with these payload fields (default: all) and this dense vector, if any."""

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        """Return the token states of the dense vector named ``vector``, by id, of the points that have them."""

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        """Yield all points that satisfy the conditions, in the order of their ids, without vectors."""

    def count(self, conditions: Conditions) -> int:
        """Count the points that satisfy the conditions, exactly."""

    def holds(self, conditions: Conditions) -> bool:
        """Return whether a point satisfies the conditions; a server counts exactly only where it permits that."""
        return next(iter(self.scroll(conditions, [])), None) is not None

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        """Return the best points for each query, best first."""

    def watches(self) -> bool:
        """Return whether ``candidates`` also says whether any point is as ``Along.watched``.

        That needs one copy of each shard, and a server that lets a search with few results compare as many points as
        one with many.
        """
        return False

    can_await: bool = False
    """Whether ``run_awaiting`` awaits a server; else it would block, and callers use a worker thread instead."""

    def candidates(self, searches: Sequence[Search], notice: str, along: Along | None = None) -> Steps[Candidates]:
        """Return the candidates of the searches, and the payload of the point ``notice`` of the same moment."""
        del along

        def find() -> Candidates:
            found = find_candidates(searches, self.search)
            point = self.retrieve([notice]).get(notice)
            found.notice = None if point is None else point.payload
            return found

        return worked(find)

    def points(self, ids: Sequence[str], vector: str | None = None) -> Steps[dict[str, Point]]:
        """Return the existing points, by id, with their payload and this dense vector, if any."""
        return worked(lambda: self.retrieve(ids, None, vector))

    def described(self) -> Steps[dict[str, Any]]:
        """Return what ``read_metadata`` returns."""
        return worked(self.read_metadata)

    def run(self, steps: Steps[T]) -> T:
        """Run steps to their end; the caller waits."""
        return run(steps)

    async def run_awaiting(self, steps: Steps[T]) -> T:
        """Run steps to their end on the event loop, if ``can_await``."""
        return self.run(steps)

    def close(self) -> None:
        """Release the store; a second call does nothing."""


def closed_error(location: str) -> StoreError:
    """Return the error for a use of a collection after its ``close``."""
    return StoreError(f"{location}: the collection has been closed; open it again")


def update_existing(backend: Backend, ids: Iterable[str], update: Callable[[list[str]], None]) -> None:
    """Update stored points; skip those that another writer removes meanwhile, and raise all other errors."""
    left = list(ids)
    while left:
        try:
            update(left)
        except StoreError:
            there = backend.retrieve(left, [])
            if len(there) == len(left):
                raise
            left = list(there)
        else:
            return


def indexed_chunks(backend: Backend, vectors: int, chunks: int, names: Sequence[str]) -> int:
    """Estimate how many chunks have all their dense vectors (``names``) in the index.

    Stores count the vectors in their indexes (``vectors``), not the points. One sparse vector of every chunk is among
    them. After a migration, new chunks lack the vector of the old model.
    """
    stored = len(names) * chunks
    if len(names) > 1:
        stored -= sum(backend.count([field_is("kind", "chunk"), LacksVector(name)]) for name in names)
    missing = stored - (vectors - chunks)
    return min(max(chunks - missing, 0), chunks)
