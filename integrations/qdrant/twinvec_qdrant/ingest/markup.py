"""Endings of the names of files in markup languages, in lower case."""

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
RESTRUCTURED_TEXT_SUFFIXES = (".rst", ".rest")
