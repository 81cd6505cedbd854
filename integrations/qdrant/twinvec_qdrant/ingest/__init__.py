"""Ingest: documents become chunks, vectors and points."""
