"""What every part of retrieval shares: the hit, and the protocols of retrievers, rerankers and encoders."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError
from twinvec.retrieval.filters import Filter
from twinvec.support.checks import is_integer

Mode = Literal["hybrid", "dense", "sparse"]
"""How to search: by vectors, by words (BM25), or by both, fused."""


MAX_LIMIT = 2**31 - 1
"""Most hits that can be asked for, or left out."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. Frozen: a later stage makes a new one.

    Attributes:
        id: The document's id; with several chunks of a document among the results, ``"{id}#{position}"``.
        text: The text that was found, as it was embedded.
        score: The score of the last stage; larger is better.
        scores: The score of every stage the hit went through, by the stage's name ("dense", "sparse",
            "fused", "maxsim", "cross-encoder", ...).
        payload: The document's own payload; for chunks also ``source``, ``position`` and ``heading``, where the
            document has no such keys of its own.
    """

    id: str
    text: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Retriever(Protocol):
    """Anything that finds hits for a query: the memory index, a Qdrant collection, your own."""

    def search(self, query: str, limit: int = 10, *, filter: Filter | None = None) -> list[Hit]:
        """At most ``limit`` hits, best first, that satisfy ``filter``."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Anything that scores hits again, looking at query and text together."""

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """New hits, best first, with the new stage's score added; at most ``limit``."""
        ...


@runtime_checkable
class TokenEncoder(Protocol):
    """What late interaction needs of an encoder."""

    def encode_tokens(
        self, texts: Sequence[str], *, prompt: str | None, on_batch: Callable[[int], None] | None = None
    ) -> list[FloatArray]:
        """For each text its token states, of length 1: shape (tokens, states dim); ``on_batch`` as for ``Encoder``."""
        ...


class VectorEncoder(Protocol):
    """What an index needs of an encoder."""

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Vectors of queries: shape (n, dim)."""
        ...

    def encode_document(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        """Vectors of documents: shape (n, dim)."""
        ...


def check_limit(limit: int, name: str = "limit") -> None:
    """Refuse a number of results that is not a whole number from 1 to ``MAX_LIMIT``.

    Raises:
        ConfigurationError: it is not.
    """
    if not is_integer(limit) or not 1 <= limit <= MAX_LIMIT:
        raise ConfigurationError(f"{name} must be a whole number from 1 to {MAX_LIMIT:,}, got {limit!r}")
