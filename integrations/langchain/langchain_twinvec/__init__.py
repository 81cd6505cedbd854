"""twinvec for LangChain: embeddings, rerankers, a retriever and a vector store."""

from langchain_twinvec.embeddings import TwinvecEmbeddings
from langchain_twinvec.rerankers import TwinvecCrossEncoder, TwinvecReranker
from langchain_twinvec.retriever import TwinvecRetriever

__all__ = ["TwinvecCrossEncoder", "TwinvecEmbeddings", "TwinvecReranker", "TwinvecRetriever"]
