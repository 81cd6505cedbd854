"""Models and rerankers by name: loading, batches across requests, the routes of embeddings and reranking."""
