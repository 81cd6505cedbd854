"""Adapters: what LangChain, LlamaIndex and other frameworks need of the core."""
