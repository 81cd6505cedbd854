"""Search: a query becomes hits."""
