"""The embedded store: Qdrant's own engine in this process, one folder for each collection."""
