"""Support: helpers that do not depend on embeddings."""
