"""Markup of texts: how a document's headings are written. Endings of file names are in lower case."""

from __future__ import annotations

from typing import Literal

from twinvec.retrieval.documents import Document

MARKDOWN_SUFFIXES = (".md", ".markdown", ".mdx")
RESTRUCTURED_TEXT_SUFFIXES = (".rst", ".rest")

Markup = Literal["markdown", "rst", "text"]


def markup_of(document: Document) -> Markup:
    """Return the markup of a text, which the payload's ``format`` states, or else the ending of the id."""
    stated, name = document.payload.get("format"), document.id.lower()
    if stated == "markdown" or (stated is None and name.endswith(MARKDOWN_SUFFIXES)):
        return "markdown"
    if stated == "rst" or (stated is None and name.endswith(RESTRUCTURED_TEXT_SUFFIXES)):
        return "rst"
    return "text"
