"""Maintenance of a collection: verify, migrate, reindex and push."""
