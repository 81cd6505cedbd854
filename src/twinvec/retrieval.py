"""Retrieval: what a hit is, what a retriever is.

``MemoryIndex`` (exact search in memory) and ``RetrieveRerank`` (two stages in one call) live here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from twinvec.filters import Filter

Mode = Literal["hybrid", "dense", "sparse"]
"""How to search: by vectors, by words (BM25), or by both, fused."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. Frozen: a later stage makes a new one.

    Attributes:
        id: The document's id; with several chunks of a document among the results, ``"{id}#{position}"``.
        text: The text that was found, as it was embedded.
        score: The score of the last stage; larger is better.
        scores: The score of every stage the hit went through, by the stage's name ("dense", "sparse",
            "fused", "maxsim", "cross-encoder", ...).
        payload: The document's own payload; for chunks also ``source``, ``position`` and ``heading``.
    """

    id: str
    text: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Retriever(Protocol):
    """Anything that finds hits for a query: the memory index, a Qdrant collection, your own."""

    def search(self, query: str, limit: int = 10, filter: Filter | None = None) -> list[Hit]:
        """At most ``limit`` hits, best first, that satisfy ``filter``."""
        ...
