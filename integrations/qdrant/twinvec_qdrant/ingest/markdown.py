"""Markdown: a text -> sections, one below each heading."""

from __future__ import annotations

from itertools import pairwise

from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.front_matter import MARKDOWN_SUFFIXES, split_front_matter


def is_markdown(document: Document) -> bool:
    """Return whether the text is Markdown: by the payload's ``format``, or else by the ending of the id."""
    stated = document.payload.get("format")
    return stated == "markdown" if stated is not None else document.id.lower().endswith(MARKDOWN_SUFFIXES)


def markdown_sections(text: str, title: list[str]) -> list[tuple[list[str], str]]:
    """Return the heading path and the body of every section; the first section stands before all headings."""
    from markdown_it import MarkdownIt

    text = text.replace("\r\n", "\n").replace("\r", "\n")  # the lines that the parser counts
    _, text = split_front_matter(text)
    lines = text.split("\n")
    tokens = MarkdownIt("commonmark").disable("inline").parse(text)
    sections: list[tuple[list[str], str]] = []
    path: list[tuple[int, str]] = []
    started = 0
    for opening, content in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or not opening.map:
            continue
        sections.append((title + [name for _, name in path], "\n".join(lines[started : opening.map[0]])))
        started = opening.map[1]
        level = int(opening.tag[1])
        path = [(above, name) for above, name in path if above < level]
        name = " ".join(content.content.split())
        if name and not (level == 1 and title == [name]):
            path.append((level, name))
    sections.append((title + [name for _, name in path], "\n".join(lines[started:])))
    return sections
