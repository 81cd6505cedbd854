"""Updates: the sources of collections are ingested again, once or whenever their files change."""
