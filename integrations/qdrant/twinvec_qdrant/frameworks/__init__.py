"""What the adapters of LangChain and LlamaIndex need of collections: whole documents, filters, arguments, checks."""
