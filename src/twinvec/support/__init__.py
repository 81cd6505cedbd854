"""Support: helpers that know nothing of embeddings."""
