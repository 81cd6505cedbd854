"""Ingests with helpers: other processes that encode, or write parts of an ingest."""
