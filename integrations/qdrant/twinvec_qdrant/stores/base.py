"""The protocols that each store of points implements, and helpers that work with every store.

A backend holds the points of one collection; it knows nothing of documents, models or commits. ``stores/embedded`` and
``stores/server`` implement the protocols, and ``tests/congruence/test_backends.py`` checks that both behave the same:

- Writes take effect in order: after a crash, a later write never exists without the earlier ones.
- Points may lack vectors. Searches and document frequencies ignore such points; ``retrieve`` and ``scroll`` do not.
- A backend raises the exceptions of its engine or client as ``StoreError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from twinvec.errors import ConfigurationError, StoreError, StoreLimitError, StoreUnavailableError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import DEFAULT_CLUSTER, DEFAULT_INDEX, ClusterSettings, IndexSettings, ReadConsistency
from twinvec_qdrant.stores.candidates import Along, Candidates, Search, find_candidates
from twinvec_qdrant.stores.conditions import Conditions, LacksVector, field_is
from twinvec_qdrant.stores.points import DENSE, Point, Query, Scored, States
from twinvec_qdrant.stores.steps import Steps, run, worked

T = TypeVar("T")

FieldIndexType = Literal["keyword", "float", "bool", "datetime", "text", "geo"]
"""The types of payload indexes that stores make. An index of texts also serves phrases."""

INDEXED_FIELDS = ("kind", "source")
"""Payload fields of twinvec that have a keyword index in every store."""

OWN_FIELDS = (*INDEXED_FIELDS, "revision", "content", "namespace")
"""Payload fields of twinvec that its filters test. A server indexes all of them, as strict mode requires."""


@dataclass(frozen=True, slots=True)
class NewCollection:
    """The properties of a collection that a store is to create.

    Attributes:
        dim: Number of dimensions of the dense vectors.
        metadata: The collection's description.
        index: Index settings of the dense vectors.
        tenant_path: Path of the payload field that names a document's tenant; None without tenants.
        states_dim: Number of dimensions of a token state; None without token states.
        cluster: Settings that only a server can have.
        vector: Name of the dense vectors.
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
    """Damage of a collection.

    Attributes:
        files: The damaged files; empty if only the engine has found damage.
        counts: Number of points of each kind before the damage, if known.
    """

    files: Sequence[str] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Store(Protocol):
    """A collection's entry in a store, whether the collection exists or not."""

    location: str
    """Folder or address for messages, without secrets."""

    def peek(self) -> dict[str, Any] | None:
        """Return the collection's description without opening it; None if the collection does not exist."""

    def neighbours(self) -> str:
        """Return the end of an error about a missing collection: where the store is, and which collections it has."""

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """Return the description of every collection of the store, by name; {} for an unreadable description."""

    def open(self) -> Backend:
        """Open the existing collection."""

    def create(self, new: NewCollection) -> Backend:
        """Create the collection, or open it if another process has just created it."""

    def drop(self) -> None:
        """Remove the collection and all it holds; does nothing if it does not exist."""

    def close(self) -> None:
        """Close the client if no backend was opened; an embedded store has no client."""
        return


class Backend(Protocol):
    """One collection in a store."""

    location: str
    """Folder or address for messages, without secrets."""

    place: Hashable
    """A value that is equal for two backends of the same collection."""

    exclusive: bool
    """Whether ``writing`` also keeps other processes from writing."""

    erases: bool = False
    """Whether ``build_index`` with ``force`` removes deleted and replaced data from the store's files."""

    writing: AbstractContextManager[object, bool | None]
    """Lock of the writer: excludes the other threads of this backend and, if ``exclusive``, all other processes."""

    damage: Damage | None = None
    """The damage that is being repaired; None if no repair is under way."""

    def no_writers(self) -> AbstractContextManager[object, bool | None]:
        """Return a context that keeps other writers out; for a read-only backend, the context does nothing."""
        return self.writing

    def undisturbed(self) -> AbstractContextManager[object, bool | None]:
        """Return a context that keeps other threads and processes from an embedded store; a server ignores it."""
        return nullcontext()

    def check_files(self) -> None:
        """Raise ``StoreCorruptError`` if an embedded store's files have been damaged; a server checks its own files."""
        return

    def end_repair(self) -> None:
        """Record that every damaged document is repaired, or marked for the next ingest."""
        return

    def cluster(self) -> ClusterSettings | None:
        """Return the cluster settings of a collection on a server; None for an embedded store."""
        return None

    def change_cluster(self, wanted: ClusterSettings) -> None:
        """Change the cluster settings; raise ``ConfigurationError`` for a setting that cannot change."""
        raise ConfigurationError(f"{self.location}: cluster settings need a Qdrant server")

    def read_consistently(self, consistency: ReadConsistency | None) -> None:
        """Set how many copies of a shard each read queries; None changes nothing.

        Until then, reads use the number that the collection records. An embedded store has one copy.
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
        """Add a named dense vector, and its token states if ``states_dim`` is set; do nothing if the name exists."""

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector and its token states from all points; ignore an unknown name."""

    def update_dense(self, points: Sequence[Point]) -> None:
        """Replace the dense vectors of stored points, and their token states in the same write."""

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        """Remove points that exist; with ``revisions``, only points that have one of these revisions at that moment."""

    def flush(self) -> None:
        """Make all writes durable; on a server, each write is durable when it returns."""
        return

    def field_indexes(self) -> Mapping[str, str]:
        """Return the type of every payload index, by its path."""

    def index_field(self, path: str, kind: FieldIndexType) -> None:
        """Index the payload field at the path; replace an index of another type."""

    def drop_field_index(self, path: str) -> None:
        """Remove the index of the payload field at the path, if it exists."""

    def begin_load(self, tenant_path: str | None) -> None:
        """Prepare an empty collection for many documents: index payload fields now, and vectors in ``build_index``.

        An embedded store does nothing here: a new collection has these payload indexes, and its engine never indexes
        vectors by itself.
        """
        return

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index if much of it is missing, or always with ``force``; return whether anything was to be done.

        With ``force``, a store that ``erases`` also removes deleted and replaced data from its files.
        Searches continue meanwhile; writers wait.
        """

    def indexed(self, chunks: int) -> int:
        """Estimate how many of the collection's ``chunks`` have their dense vectors in the index."""

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        """Return the existing points by id, with these payload fields (default: all) and, if named, a dense vector."""

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        """Return token states by point id, for the points that have them; ``vector`` names their dense vector."""

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        """Yield all points that satisfy the conditions, in the order of their ids, without vectors."""

    def count(self, conditions: Conditions) -> int:
        """Count the points that satisfy the conditions, exactly."""

    def holds(self, conditions: Conditions) -> bool:
        """Return whether any point satisfies the conditions, without a count, which a server may forbid."""
        return next(iter(self.scroll(conditions, [])), None) is not None

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        """Return the best points for each query, best first."""

    def watches(self) -> bool:
        """Return whether ``candidates`` can also look for points that satisfy ``Along.watched``.

        Only a server can do so, if it has one copy of each shard and limits neither the collection's size nor the
        number of points that a search compares.
        """
        return False

    can_await: bool = False
    """Whether ``run_awaiting`` awaits a server. If it is False, callers run the steps in a worker thread."""

    def candidates(self, searches: Sequence[Search], notice: str, along: Along | None = None) -> Steps[Candidates]:
        """Return the candidates of the searches, together with the payload of the point whose id is ``notice``."""
        del along

        def find() -> Candidates:
            found = find_candidates(searches, self.search)
            point = self.retrieve([notice]).get(notice)
            found.notice = None if point is None else point.payload
            return found

        return worked(find)

    def points(self, ids: Sequence[str], vector: str | None = None) -> Steps[dict[str, Point]]:
        """Return the existing points by id, with their payload and, if named, this dense vector."""
        return worked(lambda: self.retrieve(ids, None, vector))

    def described(self) -> Steps[dict[str, Any]]:
        """Return the collection's description, as ``read_metadata`` does."""
        return worked(self.read_metadata)

    def run(self, steps: Steps[T]) -> T:
        """Run steps to their end; the caller waits."""
        return run(steps)

    async def run_awaiting(self, steps: Steps[T]) -> T:
        """Run steps to their end on the event loop, if ``can_await``."""
        return self.run(steps)

    def close(self) -> None:
        """Release the store; a second call does nothing."""


BESIDE_EARLIER = "together with the indexes that you requested before, which a reindex replaces"
"""End of an error that advises to request a payload index."""


class CollectionGoneError(StoreUnavailableError):
    """The folder of an open collection has been removed, or replaced by another one."""

    def __init__(self, location: str) -> None:
        super().__init__(f"{location}: the collection's folder has been removed or replaced; open the collection again")


class UnindexedError(StoreLimitError):
    """A filter tests the payload field at ``path``, which has no index of the right type; the server demands one."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


def closed_error(location: str) -> StoreError:
    """Return the error for a use of a collection after its ``close``."""
    return StoreError(f"{location}: the collection has been closed; open it again")


def update_existing(backend: Backend, ids: Iterable[str], update: Callable[[list[str]], None]) -> None:
    """Update stored points; raise no error for points that another writer removes meanwhile."""
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

    Stores count indexed vectors (``vectors``), not points, and include one sparse vector for each chunk. After a
    migration, new chunks lack the vector of the old model.
    """
    stored = len(names) * chunks
    if len(names) > 1:
        stored -= sum(backend.count([field_is("kind", "chunk"), LacksVector(name)]) for name in names)
    missing = stored - (vectors - chunks)
    return min(max(chunks - missing, 0), chunks)
