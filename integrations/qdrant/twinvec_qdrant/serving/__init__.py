"""The process that serves an embedded store: how others find it, and how they ask it."""
