"""The limits that a server sets (strict mode): what it permits, and filters and searches cut to it."""
