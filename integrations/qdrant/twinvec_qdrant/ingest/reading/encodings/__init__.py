"""Encodings: those that older reading versions guess, and those in which Beautiful Soup reads a page."""
