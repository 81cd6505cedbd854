"""Adoption: a collection of LangChain's or LlamaIndex's own Qdrant class becomes one of twinvec; nothing is encoded."""
