"""The embedded store: Qdrant's engine in this process, with one folder a collection."""
