"""Adapters: parts of the core for the integrations of LangChain, LlamaIndex and other frameworks."""
