"""The border to the stores: points in, scored points out.

A backend keeps points and answers exact or approximate queries; it knows nothing of documents, models or commits.
Both backends promise the same, and ``tests/congruence/test_backends.py`` holds both to it:

- Writes take effect in their order: whatever happens, a later one is not kept without the earlier ones. After ``flush``
  they are durable.
- Points without vectors are found by ``retrieve`` and ``scroll`` only, and do not count for inverse document
  frequencies.
- Every exception of the store comes out as a ``StoreError``.

What a backend hands to its store and gets back is translated in a file of its own (``edge_values``, ``client_values``),
conditions on payloads from their neutral form in ``conditions``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from twinvec.errors import StoreError
from twinvec.retrieval.bm25 import SparseVector
from twinvec_qdrant.settings import DEFAULT_INDEX, IndexSettings
from twinvec_qdrant.stores.conditions import Conditions
from twinvec_qdrant.stores.points import Point, Query, Scored, States

INDEXED_FIELDS = ("kind", "source")
"""Payload fields with a keyword index."""


def update_there(backend: Backend, ids: Iterable[str], update: Callable[[list[str]], None]) -> None:
    """Update stored points; those that another writer has removed meanwhile are passed over.

    Raises:
        StoreError: the update fails although they are all there.
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


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a collection is made of when there is none yet."""

    dim: int
    metadata: Mapping[str, Any]
    index: IndexSettings = DEFAULT_INDEX
    tenant_path: str | None = None
    """Where in payloads tenants are named, where there are many: gets an index of its own."""
    states_dim: int | None = None
    """Size of a token's state, where token states are kept."""


class Store(Protocol):
    """The place of one collection, whether it exists or not."""

    location: str
    """Where it is, for messages: a folder or an address, without secrets."""

    def peek(self) -> dict[str, Any] | None:
        """The collection's description, None where there is no collection; opens and writes nothing."""
        ...

    def neighbours(self) -> str:
        """Where the collection would be and what else is there, for the message that there is no such collection."""
        ...

    def descriptions(self) -> dict[str, dict[str, Any]]:
        """The description of every collection in the same place, by name; empty where there is none to be read."""
        ...

    def open(self) -> Backend:
        """The collection that is there."""
        ...

    def drop(self) -> None:
        """Remove the collection with all it holds; nothing happens where there is none."""
        ...

    def create(self, new: NewCollection) -> Backend:
        """Make the collection; what another process makes at the same moment is opened."""
        ...

    def close(self) -> None:
        """Let go of what was needed to look, where neither ``open`` nor ``create`` has returned."""
        ...


class Backend(Protocol):
    """One collection in a store."""

    location: str
    """Where it is, for messages: a folder or an address, without secrets."""

    place: Hashable
    """Equal for two backends of one collection."""

    exclusive: bool
    """Whether no other process can write while this one is open."""

    writing: AbstractContextManager[object, bool | None]
    """Held by the one who writes, among the threads that share this backend."""

    def read_metadata(self) -> dict[str, Any]:
        """The collection's own description."""
        ...

    def write_metadata(self, changes: Mapping[str, Any]) -> None:
        """Set these keys of it, at once; None removes one, and all others stay as another writer may have set them."""
        ...

    def upsert(self, points: Sequence[Point]) -> None:
        """Write points; the same id again replaces."""
        ...

    def commit(self, records: Sequence[Point], expected: Sequence[str | None]) -> None:
        """Write each record only where the stored one has the ``revision`` expected (None: where there is none).

        Who lost is seen by reading back; a record lost is left as another writer wrote it.
        """
        ...

    def update_sparse(self, vectors: Mapping[str, SparseVector]) -> None:
        """Replace the sparse vectors of stored points, by id."""
        ...

    def add_vector(self, name: str, dim: int, states_dim: int | None) -> None:
        """Give points room for one more dense vector, and for token states of this size beside it.

        Nothing changes where there is one of that name.
        """
        ...

    def drop_vector(self, name: str) -> None:
        """Remove a dense vector and its token states from all points; nothing changes where there are none."""
        ...

    def update_dense(self, points: Sequence[Point]) -> None:
        """Replace the dense vectors of stored points, and the token states that come with them, both at once."""
        ...

    def delete(self, ids: Sequence[str], revisions: Collection[str] | None = None) -> None:
        """Remove points; ids that are not there are passed over.

        With ``revisions``, only points that still carry one of them as ``revision`` when they are removed: another
        writer may have written the same points anew.
        """
        ...

    def flush(self) -> None:
        """Make all that was written durable."""
        ...

    def begin_load(self, tenant_path: str | None) -> None:
        """Get ready for the first points, which are many: payload fields are indexed, dense vectors left for
        ``build_index``."""
        ...

    def build_index(self, settings: IndexSettings, *, force: bool = False) -> bool:
        """Build the index of dense vectors where much is missing of it, or with ``force``; whether it was done.

        Searches go on meanwhile; writers wait.
        """
        ...

    def indexed(self, chunks: int) -> int:
        """About how many of so many chunks have their dense vectors in the index."""
        ...

    def retrieve(
        self, ids: Sequence[str], fields: Sequence[str] | None = None, vector: str | None = None
    ) -> dict[str, Point]:
        """The points that are there, by id; ``fields`` None for the whole payload, ``vector`` names a dense one."""
        ...

    def states(self, ids: Sequence[str], vector: str) -> dict[str, States]:
        """The token states beside the dense vector of this name, by id, of those points that have them."""
        ...

    def scroll(self, conditions: Conditions, fields: Sequence[str] | None = None) -> Iterator[Point]:
        """All points that satisfy the conditions, without vectors, in the order of their ids."""
        ...

    def count(self, conditions: Conditions) -> int:
        """How many points satisfy the conditions, exactly."""
        ...

    def search(self, queries: Sequence[Query]) -> list[list[Scored]]:
        """For each query the best points, best first."""
        ...

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        ...
