"""Ingests with helpers: other processes that parse files, encode, or write parts of an ingest."""
