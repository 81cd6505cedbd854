"""The words of a text, before ``retrieval.analysis`` makes terms of them."""
