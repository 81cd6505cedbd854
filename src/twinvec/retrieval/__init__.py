"""Retrieval: hits, documents, filters, BM25, fusion, an exact index in memory, and retrieval with reranking."""

from twinvec.retrieval.base import MAX_LIMIT, Hit, Mode, Reranker, Retriever, TokenEncoder, VectorEncoder, check_limit
from twinvec.retrieval.memory_index import MemoryIndex
from twinvec.retrieval.retrieve_rerank import BatchReranker, RetrieveRerank, rerank_many, search_many

__all__ = [
    "MAX_LIMIT",
    "BatchReranker",
    "Hit",
    "MemoryIndex",
    "Mode",
    "Reranker",
    "RetrieveRerank",
    "Retriever",
    "TokenEncoder",
    "VectorEncoder",
    "check_limit",
    "rerank_many",
    "search_many",
]
