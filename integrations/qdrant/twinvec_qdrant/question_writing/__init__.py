"""Training questions: the user's language model writes questions about a collection's chunks; a search checks them."""
