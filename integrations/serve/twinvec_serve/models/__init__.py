"""Models and rerankers by name: loading them, batches across requests, a bounded queue."""
