"""twinvec for LlamaIndex: a vector store."""

from llama_index.vector_stores.twinvec.base import TwinvecVectorStore

__all__ = ["TwinvecVectorStore"]
