"""twinvec for LlamaIndex: a retriever."""

from llama_index.retrievers.twinvec.base import TwinvecRetriever

__all__ = ["TwinvecRetriever"]
