"""Types that all parts of retrieval share: the hit, and the protocols of retrievers, rerankers and encoders.

An index needs a ``VectorEncoder``. Late interaction needs a ``TokenEncoder``. A collection needs a ``SpaceEncoder``,
because it records the space of its vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, runtime_checkable

from twinvec.errors import BadVectorError, ConfigurationError, InputError
from twinvec.retrieval.documents import HiddenKeys
from twinvec.retrieval.filters import Filter
from twinvec.support.checks import is_integer
from twinvec.text import check_text, is_list

if TYPE_CHECKING:
    from twinvec.arrays import FloatArray, IntArray
else:
    FloatArray = IntArray = Any  # so that annotations can be resolved without NumPy, a slow import

Mode = Literal["hybrid", "dense", "sparse"]
"""How to search: by vectors, by words (BM25), or by both, fused."""

MAX_LIMIT = 2**31 - 1
"""Largest limit, and largest offset, of a search."""

_WHOLE_WORDS = 10  # number of unsplit words that is added to the count, so that a few split words say little


@dataclass(frozen=True, slots=True)
class Passage:
    """The part of a hit's text that answers the query.

    Attributes:
        text: The passage.
        start: Where it begins in the hit's text, in characters.
        end: Where it ends in the hit's text, in characters.
        matches: Start and end of each word of the query in the passage, in characters from the passage's start.
    """

    text: str
    start: int
    end: int
    matches: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search. Frozen: a later stage makes a new one.

    Attributes:
        id: The document's id; ``"{id}#{position}"`` if the results have several chunks of the document.
        text: The text that was found, as it was embedded.
        score: The score of the last stage; larger is better.
        scores: The score of every stage by its name ("dense", "sparse", "fused", "maxsim", "cross-encoder", ...).
        payload: The document's own payload. A chunk's hit also has ``source``, ``position`` and ``heading``, unless
            the payload itself has a key of that name.
        relevance: How likely it is that the hit answers the query, from 0 to 1; None without a calibration.
        passage: The part of the text that answers the query; None if the search was not asked for it.
        hidden: Keys of the payload that a framework leaves out of texts: keys that the document names, and keys that
            the collection has added.
    """

    id: str
    text: str
    score: float
    scores: Mapping[str, float] = field(default_factory=dict)
    payload: Mapping[str, Any] = field(default_factory=dict)
    relevance: float | None = field(default=None, kw_only=True)
    passage: Passage | None = field(default=None, kw_only=True)
    hidden: HiddenKeys | None = field(default=None, kw_only=True, repr=False, compare=False)

    @property
    def page(self) -> int | None:
        """The page on which the passage starts, or the text if the hit has no passage; None if the page is unknown.

        The payload's ``page`` is the page on which the text starts. A chunk may hold several short pages.
        """
        found = self.passage
        start, end = (body_start(self), len(self.text)) if found is None else (found.start, found.end)
        pages = pages_of(self, start, end)
        return None if pages is None else pages[0]


def body_start(hit: Hit) -> int:
    """Return where a hit's text begins behind its heading; 0 for a text that is only a heading."""
    heading = hit.payload.get("heading")
    if not isinstance(heading, str) or not heading or not hit.text.startswith(f"{heading}\n\n"):
        return 0
    return len(heading) + 2


def pages_of(hit: Hit, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and the last page of ``hit.text[start:end]``; None if the payload has no page.

    The payload's ``page`` is the page on which the text starts, and each form feed in the text begins a new page.
    """
    page: Any = hit.payload.get("page")
    if not is_integer(page):
        return None
    part = hit.text[start:end]
    before = start + len(part) - len(part.lstrip())
    first = int(page) + hit.text.count("\f", body_start(hit), before)
    return first, first + part.strip().count("\f")


@runtime_checkable
class Retriever(Protocol):
    """Anything that finds hits for a query: a memory index, a Qdrant collection, a class of your own."""

    def search(self, query: str, limit: int = 10, *, filter: Filter | None = None) -> list[Hit]:
        """Return at most ``limit`` hits that satisfy ``filter``, best first."""


@runtime_checkable
class Reranker(Protocol):
    """Any object that compares a query with the texts of hits and gives the hits new scores."""

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """Return at most ``limit`` new hits, best first, with the score of this stage added."""


@runtime_checkable
class PassageFinder(Protocol):
    """A retriever or reranker that finds passages for given hits.

    A search is faster if only the hits that it returns get passages. ``search`` and ``search_many`` of such a retriever
    take ``passages=False``, which leaves the passages out.
    """

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of one query, each with the passage that answers it."""


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder of token states, for late interaction."""

    def encode_tokens(
        self, texts: Sequence[str], *, prompt: str | None, on_batch: Callable[[int], None] | None = None
    ) -> list[FloatArray]:
        """Return the normalised token states of each text: (tokens, states dim). ``on_batch`` is as in ``Encoder``."""


@runtime_checkable
class SpanEncoder(TokenEncoder, Protocol):
    """A ``TokenEncoder`` that also returns the positions of its tokens in the text, for passages."""

    def token_spans(self, texts: Sequence[str], *, prompt: str | None) -> list[IntArray]:
        """Return the start and end of each token of ``encode_tokens``: (tokens, 2); (0, 0) for a special token."""


class VectorEncoder(Protocol):
    """An encoder of queries and documents, for an index. ``encode_document`` may also take ``progress``, a bool."""

    def encode_query(self, texts: Sequence[str]) -> Any:
        """Return the vectors of queries: shape (n, dim)."""

    def encode_document(self, texts: Sequence[str]) -> Any:
        """Return the vectors of documents: shape (n, dim)."""


class SpaceEncoder(VectorEncoder, Protocol):
    """A ``VectorEncoder`` that names its vector space, for a collection."""

    @property
    def name(self) -> str:
        """Name by which the same model can be loaded again."""

    @property
    def dim(self) -> int:
        """Size of the vectors."""

    @property
    def space(self) -> str:
        """Digest of everything that decides the vectors."""


def as_vectors(rows: Any, name: str) -> FloatArray:
    """Return what an encoder gave as an array of float32.

    Raise BadVectorError, which begins with the encoder's ``name``, if the rows are not numbers or differ in length.
    """
    import numpy as np

    try:
        return np.asarray(rows, dtype=np.float32)
    except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: a tensor of torch that requires a gradient
        raise BadVectorError(f"{name}: its vectors are not numbers of one size: {error}") from error


def unknown_texts(encoder: object, texts: Sequence[str]) -> list[bool]:
    """Return for each text whether most of its words are unknown to the encoder's model.

    For an encoder without a tokenizer of this package, all words count as known.
    """
    unknown = getattr(getattr(encoder, "tokenizer", None), "unknown", None)
    return [False] * len(texts) if unknown is None else cast("list[bool]", unknown(texts))


def continued_words(encoder: object, texts: Sequence[str]) -> float:
    """Return the proportion of words that the encoder's tokenizer splits; lower than the true one for few words.

    The proportion is 0 for an encoder without a tokenizer of this package.
    """
    count = getattr(getattr(encoder, "tokenizer", None), "count_continued", None)
    if count is None:
        return 0.0
    continued, words = cast("tuple[int, int]", count(texts))
    return continued / (words + _WHOLE_WORDS)


def check_hits(hits: object, where: str) -> list[Hit]:
    """Return hits as a list; raise InputError for other values, and TextError for a refused text.

    The error begins with ``where``.
    """
    if not is_list(hits):
        raise InputError(f"{where}: expected a list of hits, got {type(hits).__name__}")
    found = list(cast("Iterable[Hit]", hits))
    for hit in found:
        if not isinstance(hit, Hit):
            raise InputError(f"{where}: expected hits, got {type(hit).__name__}")
        check_text(hit.text, f"{where}, hit {hit.id!r}")
    return found


def check_offset(offset: int) -> None:
    """Raise ConfigurationError unless ``offset`` is an integer from 0 to ``MAX_LIMIT``."""
    if not is_integer(offset) or not 0 <= offset <= MAX_LIMIT:
        raise ConfigurationError(f"offset must be an integer from 0 to {MAX_LIMIT:,}, got {offset!r}")


def check_least_relevance(least: float | None) -> None:
    """Raise ConfigurationError unless ``min_relevance`` is a number from 0 to 1, or None."""
    if least is not None and (not isinstance(least, Real) or not 0 <= least <= 1):
        raise ConfigurationError(f"min_relevance must be a number from 0 to 1, got {least!r}")


def relevant(hits: Sequence[Hit], least: float | None) -> list[Hit]:
    """Return the hits whose relevance is at least ``least`` or unknown."""
    return [hit for hit in hits if least is None or hit.relevance is None or hit.relevance >= least]


def check_limit(limit: int, name: str = "limit") -> None:
    """Raise ConfigurationError, which names ``name``, unless ``limit`` is an integer from 1 to ``MAX_LIMIT``."""
    if not is_integer(limit) or not 1 <= limit <= MAX_LIMIT:
        raise ConfigurationError(f"{name} must be a whole number from 1 to {MAX_LIMIT:,}, got {limit!r}")
