"""The limits that a server sets (strict mode), and filters and searches that are split to fit them."""
