"""twinvec for LlamaIndex: reranking."""

from llama_index.postprocessor.twinvec_rerank.base import TwinvecRerank

__all__ = ["TwinvecRerank"]
