"""The process that serves an embedded store: how other processes find it, and their client."""
