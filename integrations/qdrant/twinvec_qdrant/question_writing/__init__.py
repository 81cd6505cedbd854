"""Training questions that a language model of the user's writes to the chunks of a collection, checked by search."""
