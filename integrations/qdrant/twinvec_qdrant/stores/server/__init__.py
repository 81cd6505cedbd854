"""The server store: a Qdrant server, through its client."""
