"""The server store: a Qdrant server, by its client."""
