"""Two stages in one call: a retriever finds candidates, and a reranker orders them, for one query or for many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

from twinvec.errors import InputError
from twinvec.retrieval.base import (
    Hit,
    PassageFinder,
    Reranker,
    Retriever,
    check_hits,
    check_least_relevance,
    check_limit,
    check_offset,
    relevant,
)
from twinvec.retrieval.filters import Filter
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import check_methods
from twinvec.support.progress import progress_bar
from twinvec.text import check_texts, is_list

OWN_OPTIONS = frozenset({"offset", "min_relevance", "passages"})
"""Options of ``search`` that ``RetrieveRerank`` handles itself, so that its retriever need not accept them."""


@runtime_checkable
class BatchReranker(Reranker, Protocol):
    """A reranker that takes many queries at once. A subclass gets ``rerank`` from its ``rerank_many``."""

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """Return at most ``limit`` new hits, best first; the new score is in ``score`` and in ``scores``.

        Raises:
            TextError: the query or a hit's text is invalid (not a string, too long, or with a lone surrogate).
            InputError: a hit's score is not finite.
            ConfigurationError: the limit is below 1.
        """
        return self.rerank_many([query], [hits], limit)[0]

    def rerank_many(
        self,
        queries: Sequence[str],
        hits_lists: Sequence[Sequence[Hit]],
        limit: int | None = None,
        *,
        progress: bool = False,
    ) -> list[list[Hit]]:
        """Rerank the hits of each query; ``progress`` shows a bar on a terminal, a line a minute elsewhere."""


class RetrieveRerank:
    """Retrieves candidates, reranks them, keeps the best hits, and finds their passages.

    Args:
        retriever: Finds the candidates, by ``search_many`` if it has this method.
        reranker: Scores the candidates again, by ``rerank_many`` if it has this method.
        candidates: Number of hits to retrieve, unless the limit of a search is larger.

    Raises:
        ConfigurationError: ``candidates`` is below 1, the retriever has no ``search``, or the reranker no ``rerank``.

    ``asearch`` and ``asearch_many`` are ``search`` and ``search_many`` to be awaited; they do not block the event loop.
    """

    def __init__(self, retriever: Retriever, reranker: Reranker, candidates: int = 100) -> None:
        check_limit(candidates, "candidates")
        check_methods(retriever, ("search",), "retriever", "a retriever, such as MemoryIndex(...) or a collection")
        check_methods(reranker, ("rerank",), "reranker", "a reranker, such as MaxSimReranker(...)")
        self.retriever = retriever
        self.reranker = reranker
        self.candidates = candidates

    def __repr__(self) -> str:
        return f"RetrieveRerank({self.retriever!r}, {self.reranker!r}, candidates={self.candidates})"

    def search(
        self, query: str, limit: int = 10, filter: Filter | None = None, *, passages: bool = True, **options: Any
    ) -> list[Hit]:
        """Return at most ``limit`` hits, best first, with the scores of all stages. The retriever gets ``options``.

        Args:
            query: The text.
            limit: Largest number of hits to return.
            filter: Conditions on the documents' payloads.
            passages: Whether hits get the passage that answers the query, if retriever or reranker find passages.
            **options: Further arguments of the retriever's ``search``. ``offset``, the number of hits to skip, and
                ``min_relevance`` apply to the reranked hits.

        Raises:
            ConfigurationError: the limit is below 1. Errors of retriever and reranker are raised, too.
            InputError: the retriever or the reranker returns something other than hits.
        """
        cut = _Cut.taken(limit, options)
        options |= without_passages(self.retriever)
        found = self.retriever.search(query, limit=max(cut.end, self.candidates), filter=filter, **options)
        hits = check_hits(found, "the retriever's answer")
        best = cut.of(check_hits(self.reranker.rerank(query, hits, limit=cut.end), "the reranker's answer"))
        return self.with_passages(query, best) if passages else best

    def search_many(
        self,
        queries: Sequence[str],
        limit: int = 10,
        filter: Filter | None = None,
        *,
        passages: bool = True,
        **options: Any,
    ) -> list[list[Hit]]:
        """``search`` for many queries at once. Passages come from the retriever only."""
        cut = _Cut.taken(limit, options)
        queries = check_texts(queries, name="query", argument="queries")
        options |= without_passages(self.retriever)
        found = search_many(self.retriever, queries, max(cut.end, self.candidates), filter=filter, **options)
        found = _checked(found, len(queries), "the retriever's answer")
        reranked = _checked(rerank_many(self.reranker, queries, found, cut.end), len(queries), "the reranker's answer")
        best = [cut.of(hits) for hits in reranked]
        if not passages or not isinstance(self.retriever, PassageFinder):
            return best
        return [self.retriever.with_passages(query, hits) for query, hits in zip(queries, best, strict=True)]

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of one query with passages from the retriever, which the reranker may replace."""
        for stage in (self.retriever, self.reranker):
            if isinstance(stage, PassageFinder):
                hits = stage.with_passages(query, hits)
        return list(hits)

    # types ignored: mypy warns that options might contain "self"
    asearch = awaitable(search, computes=True)  # type: ignore[arg-type]
    asearch_many = awaitable(search_many, computes=True)  # type: ignore[arg-type]


def _checked(lists: object, queries: int, where: str) -> list[list[Hit]]:
    """Check the answer of a stage: one list of hits for each query. Errors are those of ``check_hits``."""
    answers = list(cast("Iterable[object]", lists)) if is_list(lists) else None
    if answers is None or len(answers) != queries:
        raise InputError(f"{where}: expected a list of hits for each of {queries} queries")
    return [check_hits(hits, f"{where} to query {row}") for row, hits in enumerate(answers)]


class _Cut(NamedTuple):
    """The reranked hits that a search returns: from ``offset`` to ``end``, with a relevance of at least ``least``."""

    offset: int
    end: int
    least: float | None

    @classmethod
    def taken(cls, limit: int, options: dict[str, Any]) -> _Cut:
        """Remove ``offset`` and ``min_relevance`` from the options, because they apply to the reranked hits."""
        offset, least = options.pop("offset", 0), options.pop("min_relevance", None)
        check_limit(limit)
        check_offset(offset)
        check_least_relevance(least)
        return cls(offset, offset + limit, least)

    def of(self, hits: Sequence[Hit]) -> list[Hit]:
        return relevant(hits[self.offset : self.end], self.least)


def without_passages(retriever: object) -> dict[str, Any]:
    """Return the options that make a retriever leave out passages, which candidates and measurements do not need."""
    return {"passages": False} if isinstance(retriever, PassageFinder) else {}


def search_many(retriever: Retriever, queries: Sequence[str], limit: int = 10, **options: Any) -> list[list[Hit]]:
    """Return the hits of each query, by ``search_many`` if the retriever has it, else query by query."""
    if hasattr(retriever, "search_many"):
        found: list[list[Hit]] = retriever.search_many(queries, limit=limit, **options)
        return found
    return [retriever.search(query, limit=limit, **options) for query in queries]


def rerank_many(
    reranker: Reranker,
    queries: Sequence[str],
    hits_lists: Sequence[Sequence[Hit]],
    limit: int | None = None,
    *,
    progress: bool = False,
) -> list[list[Hit]]:
    """Return new hits for each query, by ``rerank_many`` if the reranker has it, else query by query."""
    if isinstance(reranker, BatchReranker):
        shown = {"progress": True} if progress else {}  # a reranker of another project may lack the option
        return reranker.rerank_many(queries, hits_lists, limit, **shown)
    reranked = []
    with progress_bar("Reranking", len(queries), "queries", shown=progress) as advance:
        for query, hits in zip(queries, hits_lists, strict=True):
            reranked.append(reranker.rerank(query, hits, limit))
            advance(1)
    return reranked
