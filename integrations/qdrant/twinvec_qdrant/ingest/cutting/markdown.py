"""Markdown: cuts a text into sections, one below each heading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from twinvec.retrieval.documents import Document
from twinvec_qdrant.ingest.front_matter import MARKDOWN_SUFFIXES, split_front_matter

if TYPE_CHECKING:
    from markdown_it.token import Token


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


def markdown_sections(text: str, title: list[str], *, plain: bool = True) -> list[tuple[list[str], str]]:
    """Return the heading path and the body of every section; the first section is the text before all headings.

    With ``plain``, headings lose their markup; reading versions 1 to 5 keep it.
    """
    text = with_line_feeds(text)
    lines = text.split("\n")
    return [(path, "\n".join(lines[first:end])) for path, first, end in located_sections(text, title, plain=plain)]


def located_sections(text: str, title: list[str], *, toml: bool = False, plain: bool = True) -> list[Section]:
    """Return the sections of a text whose lines end in \\n; lines of a front matter are in no section.

    With ``toml``, the front matter may be TOML, too; use it for the text of a whole file. ``plain`` is that of
    ``markdown_sections``.
    """
    from markdown_it import MarkdownIt

    _, body = split_front_matter(text, toml=toml)
    parser, links = MarkdownIt("commonmark"), dict[str, Any]()  # links: the addresses that the text defines by a name
    tokens = MarkdownIt("commonmark").disable("inline").parse(body, links)
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
        name = content.content
        if plain:
            name = "".join(_seen(parser.parseInline(name, links)))
        name = " ".join(name.split())
        if name and not (level == 1 and title == [name]):
            path.append((level, name))
    sections.append(Section(title + [name for _, name in path], started, text.count("\n") + 1))
    return sections


def _seen(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield what a reader sees of inline Markdown: its texts and code, and the descriptions of images."""
    for token in tokens:
        if token.children is not None:
            yield from _seen(token.children)
        elif token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak"):
            yield " "
