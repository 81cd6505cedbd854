"""How many chunks are in the index: stores count vectors, of all names together, and not the chunks."""

from __future__ import annotations

from collections.abc import Sequence

from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import LacksVector, field_is


def indexed_chunks(backend: Backend, vectors: int, chunks: int, names: Sequence[str]) -> int:
    """About how many of so many chunks have all their dense vectors in an index.

    Args:
        backend: Where they are.
        vectors: How many vectors are in indexes, sparse ones included, which always are: one a chunk.
        chunks: How many there are.
        names: Of the dense vectors that chunks may have. After a migration, new ones lack that of the old model.
    """
    stored = len(names) * chunks
    if len(names) > 1:
        stored -= sum(backend.count([field_is("kind", "chunk"), LacksVector(name)]) for name in names)
    missing = stored - (vectors - chunks)
    return min(max(chunks - missing, 0), chunks)
