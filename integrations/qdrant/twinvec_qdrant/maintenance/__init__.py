"""Maintenance: verify, migrate, reindex and push a collection."""
