"""How many chunks are in the index: stores count vectors, of all names together, and not the chunks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twinvec_qdrant.backends.conditions import Conditions, LacksVector, field_is


class Counts(Protocol):
    """A store, as far as it counts."""

    def count(self, conditions: Conditions) -> int:
        """Points that satisfy the conditions."""
        ...


def indexed_chunks(store: Counts, vectors: int, chunks: int, names: Sequence[str]) -> int:
    """About how many of so many chunks have all their dense vectors in an index.

    Args:
        store: Where they are.
        vectors: How many vectors are in indexes, sparse ones included, which always are: one a chunk.
        chunks: How many there are.
        names: Of the dense vectors that chunks may have. After a migration, new ones lack that of the old model.
    """
    stored = len(names) * chunks
    if len(names) > 1:
        stored -= sum(store.count([field_is("kind", "chunk"), LacksVector(name)]) for name in names)
    missing = stored - (vectors - chunks)
    return min(max(chunks - missing, 0), chunks)
