"""Code shared by the adapters of LangChain and LlamaIndex: whole documents, filters, arguments, checks of vectors."""
