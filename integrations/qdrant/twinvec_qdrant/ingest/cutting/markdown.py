"""Markdown: cuts a text into sections, one below each heading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from twinvec_qdrant.ingest.cutting.sections import Heading, Section, sections_below
from twinvec_qdrant.ingest.front_matter import split_front_matter

if TYPE_CHECKING:
    from markdown_it.token import Token

_LINE_BREAK = re.compile(r"<br\b", re.IGNORECASE)  # other tags of a heading are left out, and their texts stay


def markdown_sections(text: str, title: list[str], *, toml: bool = False, plain: bool = True) -> list[Section]:
    """Return the sections of a text whose lines end in \\n; lines of a front matter are in no section.

    With ``toml``, the front matter may be TOML, too; use it for the text of a whole file. With ``plain``, headings lose
    their markup; reading versions 1 to 5 keep it.
    """
    _, body = split_front_matter(text, toml=toml)
    before = text.count("\n", 0, len(text) - len(body))  # lines of the front matter
    return sections_below(_headings(body, before, plain=plain), title, before, text.count("\n") + 1)


def _headings(body: str, before: int, *, plain: bool) -> Iterator[Heading]:
    from markdown_it import MarkdownIt

    parser, links = MarkdownIt("commonmark"), dict[str, Any]()  # links: the addresses that the text defines by a name
    tokens = MarkdownIt("commonmark").disable("inline").parse(body, links)
    for opening, content in pairwise(tokens):
        if opening.type != "heading_open" or opening.level or not opening.map:
            continue
        name = content.content
        if plain:
            name = "".join(_seen(parser.parseInline(name, links)))
        first, end = opening.map
        yield Heading(int(opening.tag[1]), " ".join(name.split()), before + first, before + end)


def _seen(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield what a reader sees of inline Markdown: its texts and code, and the descriptions of images."""
    for token in tokens:
        if token.children is not None:
            yield from _seen(token.children)
        elif token.type in ("text", "code_inline"):
            yield token.content
        elif token.type in ("softbreak", "hardbreak") or _LINE_BREAK.match(token.content):
            yield " "
