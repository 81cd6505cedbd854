"""The repair of damaged files: what can still be read of them."""
