"""Sections of a text: the heading path and the lines below each heading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Heading(NamedTuple):
    """A heading: its level from 1, what a reader sees of it, and its lines, ``first`` to ``end - 1``, from 0."""

    level: int
    name: str
    first: int
    end: int


class Section(NamedTuple):
    """A heading path, and the lines below its last heading: ``first`` to ``end - 1``, counted from 0."""

    path: list[str]
    first: int
    end: int


def sections_below(headings: Iterable[Heading], title: Sequence[str], first: int, end: int) -> list[Section]:
    """Return the sections of the lines ``first`` to ``end - 1``; the first section is the text before all headings.

    Heading paths begin with ``title``. A heading of level 1 that repeats the title adds nothing to them.
    """
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    for heading in headings:
        sections.append(Section([*title, *(name for _, name in path)], first, heading.first))
        first = heading.end
        path = [(above, name) for above, name in path if above < heading.level]
        if heading.name and not (heading.level == 1 and list(title) == [heading.name]):
            path.append((heading.level, heading.name))
    return [*sections, Section([*title, *(name for _, name in path)], first, end)]


def with_line_feeds(text: str) -> str:
    """Return a text with \\n as the only line end, so that line numbers are those of the parsers."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def bodies(text: str, sections: Iterable[Section]) -> list[tuple[list[str], str]]:
    """Return the heading path and the text of every section."""
    lines = text.split("\n")
    return [(path, "\n".join(lines[first:end])) for path, first, end in sections]
