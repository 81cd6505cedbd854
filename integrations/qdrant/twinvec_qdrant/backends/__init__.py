"""Where a collection's points live: Qdrant's engine in this process, or a Qdrant server."""
