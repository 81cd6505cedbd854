"""Retrieval: hits, documents, filters, BM25, fusion, an exact index in memory, and retrieval with reranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.retrieval.base import MAX_LIMIT as MAX_LIMIT
    from twinvec.retrieval.base import Hit as Hit
    from twinvec.retrieval.base import Mode as Mode
    from twinvec.retrieval.base import Reranker as Reranker
    from twinvec.retrieval.base import Retriever as Retriever
    from twinvec.retrieval.base import TokenEncoder as TokenEncoder
    from twinvec.retrieval.base import VectorEncoder as VectorEncoder
    from twinvec.retrieval.base import check_limit as check_limit
    from twinvec.retrieval.memory_index import MemoryIndex as MemoryIndex
    from twinvec.retrieval.retrieve_rerank import BatchReranker as BatchReranker
    from twinvec.retrieval.retrieve_rerank import RetrieveRerank as RetrieveRerank
    from twinvec.retrieval.retrieve_rerank import rerank_many as rerank_many
    from twinvec.retrieval.retrieve_rerank import search_many as search_many

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BatchReranker": "retrieve_rerank",
        "Hit": "base",
        "MAX_LIMIT": "base",
        "MemoryIndex": "memory_index",
        "Mode": "base",
        "Reranker": "base",
        "RetrieveRerank": "retrieve_rerank",
        "Retriever": "base",
        "TokenEncoder": "base",
        "VectorEncoder": "base",
        "check_limit": "base",
        "rerank_many": "retrieve_rerank",
        "search_many": "retrieve_rerank",
    },
)
