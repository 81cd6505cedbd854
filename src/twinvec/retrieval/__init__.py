"""Retrieval: hits, documents, filters, BM25, fusion, an exact index in memory, and retrieval with reranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.retrieval.base import (
        MAX_LIMIT,
        Hit,
        Mode,
        Passage,
        Reranker,
        Retriever,
        SpaceEncoder,
        TokenEncoder,
        VectorEncoder,
        check_limit,
    )
    from twinvec.retrieval.memory_index import MemoryIndex
    from twinvec.retrieval.retrieve_rerank import BatchReranker, RetrieveRerank, rerank_many, search_many

__all__ = [
    "MAX_LIMIT",
    "BatchReranker",
    "Hit",
    "MemoryIndex",
    "Mode",
    "Passage",
    "Reranker",
    "RetrieveRerank",
    "Retriever",
    "SpaceEncoder",
    "TokenEncoder",
    "VectorEncoder",
    "check_limit",
    "rerank_many",
    "search_many",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "base": "MAX_LIMIT Hit Mode Passage Reranker Retriever SpaceEncoder TokenEncoder VectorEncoder check_limit",
        "memory_index": "MemoryIndex",
        "retrieve_rerank": "BatchReranker RetrieveRerank rerank_many search_many",
    },
    modules="documents filters tuned_search",
)
