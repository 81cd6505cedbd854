"""The collections of the served place: opening, searching, ingesting."""
