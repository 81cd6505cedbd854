"""The repair of damaged files: reading all that can still be read."""
