"""The collections of the served store: opening, searching, ingesting."""
