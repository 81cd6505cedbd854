"""Retrieve many candidates, rerank them, keep the best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from twinvec.retrieval.base import Hit, Reranker, Retriever, check_limit
from twinvec.retrieval.filters import Filter
from twinvec.support.progress import progress_bar
from twinvec.text import check_texts


@runtime_checkable
class BatchReranker(Reranker, Protocol):
    """A reranker that takes many queries at once."""

    def rerank_many(
        self,
        queries: Sequence[str],
        hits_lists: Sequence[Sequence[Hit]],
        limit: int | None = None,
        *,
        progress: bool = False,
    ) -> list[list[Hit]]:
        """``rerank`` for each query and its hits; ``progress`` shows a bar on a terminal."""
        ...


class RetrieveRerank:
    """Retrieve many candidates, rerank them, keep the best.

    Args:
        retriever: Finds the candidates; its ``search_many`` is used where it has one.
        reranker: Scores them again; its ``rerank_many`` is used where it has one.
        candidates: How many to retrieve, or the limit of a search where that is more.

    Raises:
        ConfigurationError: ``candidates`` is below 1.
    """

    def __init__(self, retriever: Retriever, reranker: Reranker, candidates: int = 100) -> None:
        check_limit(candidates, "candidates")
        self.retriever = retriever
        self.reranker = reranker
        self.candidates = candidates

    def search(self, query: str, limit: int = 10, filter: Filter | None = None, **options: Any) -> list[Hit]:
        """At most ``limit`` hits, best first, with the scores of all stages; ``options`` go to the retriever.

        Raises:
            ConfigurationError: a limit below 1; and whatever retriever and reranker raise.
        """
        check_limit(limit)
        hits = self.retriever.search(query, limit=max(limit, self.candidates), filter=filter, **options)
        return self.reranker.rerank(query, hits, limit=limit)

    def search_many(
        self, queries: Sequence[str], limit: int = 10, filter: Filter | None = None, **options: Any
    ) -> list[list[Hit]]:
        """``search`` for many queries at once."""
        check_limit(limit)
        queries = check_texts(queries)
        found = search_many(self.retriever, queries, max(limit, self.candidates), filter=filter, **options)
        return rerank_many(self.reranker, queries, found, limit)


def search_many(retriever: Retriever, queries: Sequence[str], limit: int = 10, **options: Any) -> list[list[Hit]]:
    """Hits for each query: by ``search_many`` where the retriever has it, else one query after the other."""
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
    """New hits for each query: by ``rerank_many`` where the reranker has it, else one query after the other."""
    if isinstance(reranker, BatchReranker):
        shown = {"progress": True} if progress else {}  # one of somebody else's may have no bar
        return reranker.rerank_many(queries, hits_lists, limit, **shown)
    reranked = []
    with progress_bar("Reranking", len(queries), "queries", shown=progress) as advance:
        for query, hits in zip(queries, hits_lists, strict=True):
            reranked.append(reranker.rerank(query, hits, limit))
            advance(1)
    return reranked
