"""Markdown: cuts a text into sections, one below each heading."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.front_matter import MARKDOWN_SUFFIXES, split_front_matter


def is_markdown(document: Document) -> bool:
    """Return whether the text is Markdown: by the payload's ``format``, or else by the ending of the id."""
    stated = document.payload.get("format")
    return stated == "markdown" if stated is not None else document.id.lower().endswith(MARKDOWN_SUFFIXES)


def with_line_feeds(text: str) -> str:
    """Return a text with \\n as the only line end, so that line numbers are those of the Markdown parser."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


class Section(NamedTuple):
    """A heading path, and the lines below its last heading: ``first`` to ``end - 1``, counted from 0."""

    path: list[str]
    first: int
    end: int


def markdown_sections(text: str, title: list[str]) -> list[tuple[list[str], str]]:
    """Return the heading path and the body of every section; the first section is the text before all headings."""
    text = with_line_feeds(text)
    lines = text.split("\n")
    return [(path, "\n".join(lines[first:end])) for path, first, end in located_sections(text, title)]


def located_sections(text: str, title: list[str], *, toml: bool = False) -> list[Section]:
    """Return the sections of a text whose lines end in \\n; lines of a front matter are in no section.

    With ``toml``, the front matter may be TOML, too; use it for the text of a whole file.
    """
    from markdown_it import MarkdownIt

    _, body = split_front_matter(text, toml=toml)
    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    before = text.count("\n", 0, len(text) - len(body))  # lines of the front matter
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    started = before
    for opening, content in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or not opening.map:
            continue
        sections.append(Section(title + [name for _, name in path], started, before + opening.map[0]))
        started = before + opening.map[1]
        level = int(opening.tag[1])
        path = [(above, name) for above, name in path if above < level]
        name = " ".join(content.content.split())
        if name and not (level == 1 and title == [name]):
            path.append((level, name))
    sections.append(Section(title + [name for _, name in path], started, text.count("\n") + 1))
    return sections
