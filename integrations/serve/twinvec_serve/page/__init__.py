"""The page: its files and what they need of the server."""
