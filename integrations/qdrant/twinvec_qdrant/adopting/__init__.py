"""Adoption: a collection of LangChain's or LlamaIndex's own Qdrant class becomes twinvec's; nothing is encoded."""
