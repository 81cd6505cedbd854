"""The protocols of a store, and two helpers that work with every store.

A backend holds the points of one collection and answers exact and approximate queries. It knows nothing of documents,
models or commits. ``stores/embedded`` and ``stores/server`` implement the protocols, and
``tests/congruence/test_backends.py`` holds both to the same behaviour:

- Writes take effect in order: after a crash, a later write is never there without the earlier ones. ``flush`` makes
  all writes durable.
- ``retrieve`` and ``scroll`` return points without vectors; searches never find them, and inverse document frequencies
  do not count them.
- An exception of the engine or the client is raised as a ``StoreError``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from twinvec.errors import StoreError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import DEFAULT_INDEX, IndexSettings
from twinvec_qdrant.stores.conditions import Conditions, LacksVector, field_is
from twinvec_qdrant.stores.points import Point, Query, Scored, States

INDEXED_FIELDS = ("kind", "source")
"""Payload fields with a keyword index."""


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a store needs to create a collection.

    Attributes:
        dim: Size of the dense vectors.
        metadata: The collection's description.
        index: Settings of the index.
        tenant_path: Path of the tenant's name in payloads, which gets an index; None without tenants.
        states_dim: Size of a token state; None if the collection keeps no token states.
    """

    dim: int
    metadata: Mapping[str, Any]
    index: IndexSettings = DEFAULT_INDEX
    tenant_path: str | None = None
    states_dim: int | None = None


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
        """Release the place, if neither ``open`` nor ``create`` has returned a backend."""


class Backend(Protocol):
    """One collection in a store."""

    location: str
    """Folder or address for messages, without secrets."""

    place: Hashable
    """Equal for two backends of the same collection."""

    exclusive: bool
    """Whether no other process can write while this backend is open."""

    writing: AbstractContextManager[object, bool | None]
    """The lock of the writer, among the threads that share this backend."""

    def read_metadata(self) -> dict[str, Any]:
        """Return the collection's description; {} if twinvec did not create the collection."""

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        """Set these keys of the description in one write; None removes a key, and all other keys stay."""

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points; a point replaces the stored point with the same id."""

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        """Write each record only if the stored one has the expected ``revision`` (None: if no record is stored).

        A record that another writer has changed stays as it is; the caller reads the records back to see which.
        """

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        """Replace the sparse vectors of stored points, by id."""

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        """Let points have one more dense vector, and token states of size ``states_dim`` unless it is None.

        Does nothing if the collection has a vector of that name.
        """

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector and its token states from all points; does nothing if there is no such vector."""

    def update_dense(self, points: Sequence[Point]) -> None:
        """Replace the dense vectors of stored points, and their token states in the same write."""

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        """Remove the points with these ids, as far as they exist.

        With ``revisions``, a point is removed only if its ``revision`` is one of them at that moment: another writer
        may have written the point again.
        """

    def flush(self) -> None:
        """Make all writes durable."""

    def begin_load(self, tenant_path: str | None) -> None:
        """Prepare an empty collection for many points: index payload fields, and leave dense vectors to
        ``build_index``."""

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index of dense vectors if much of it is missing, or always with ``force``.

        Searches go on meanwhile; writers wait.

        Returns:
            Whether an index was built.
        """

    def indexed(self, chunks: int) -> int:
        """Estimate how many of the collection's ``chunks`` have their dense vectors in the index."""

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        """Return the existing points among ``ids``, by id.

        Args:
            ids: Point ids.
            fields: Payload fields to return; default: all.
            vector: Name of a dense vector to return; default: no vector.
        """

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        """Return the token states of the dense vector named ``vector``, by id, of the points that have them."""

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        """Yield all points that satisfy the conditions, in the order of their ids, without vectors."""

    def count(self, conditions: Conditions) -> int:
        """Count the points that satisfy the conditions, exactly."""

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        """Return the best points for each query, best first."""

    def close(self) -> None:
        """Release the store; a second call does nothing."""


def update_existing(backend: Backend, ids: Iterable[str], update: Callable[[list[str]], None]) -> None:
    """Update stored points, and pass over points that another writer removes meanwhile.

    Raises:
        StoreError: the update fails although all points exist.
    """
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
    """Estimate how many chunks have all their dense vectors in the index: stores count vectors and not points.

    Args:
        backend: The collection's backend.
        vectors: Vectors in indexes, as the store counts them, with one sparse vector a chunk: these are all indexed.
        chunks: Chunks in the collection.
        names: Names of the dense vectors. After a migration, new chunks lack the vector of the old model.
    """
    stored = len(names) * chunks
    if len(names) > 1:
        stored -= sum(backend.count([field_is("kind", "chunk"), LacksVector(name)]) for name in names)
    missing = stored - (vectors - chunks)
    return min(max(chunks - missing, 0), chunks)
