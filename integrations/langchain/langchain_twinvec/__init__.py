"""twinvec for LangChain: embeddings, rerankers, a retriever and a vector store."""

from langchain_twinvec.embeddings import TwinvecEmbeddings

__all__ = ["TwinvecEmbeddings"]
