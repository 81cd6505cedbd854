"""twinvec for LlamaIndex: embeddings."""

from llama_index.embeddings.twinvec.base import TwinvecEmbedding

__all__ = ["TwinvecEmbedding"]
