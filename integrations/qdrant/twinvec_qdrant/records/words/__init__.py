"""The words that a collection keeps: its vocabulary, and the spelling of queries by it."""
