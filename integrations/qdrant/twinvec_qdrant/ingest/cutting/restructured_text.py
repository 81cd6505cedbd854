"""reStructuredText: cuts a text into sections, one below each heading.

docutils finds the headings. Directives are not run, because many are Sphinx' own and some read other files; headings
in their content do not count. Labels above a heading, to which other pages refer, belong to the heading: alone in a
chunk, a label would be found by the words of its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twinvec.interrupts import raise_of_handler
from twinvec_qdrant.ingest.cutting.sections import Heading, Section, sections_below

_ROLE = re.compile(r":[\w.+:-]+:`[!~]?([^`<]*)(?:<[^`]*>)?`")  # docutils does not know Sphinx' roles
_LABEL = re.compile(r"\.\. _[^_].*:\s*$")
_LINE_ENDS = dict.fromkeys(map(ord, "\x1c\x1d\x1e\x85\u2028\u2029"), " ")  # line ends of docutils only
_SETTINGS = {
    "report_level": 5,  # no messages
    "halt_level": 5,  # no exceptions
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "line_length_limit": 2**31,
}


def restructured_text_sections(text: str, title: list[str]) -> list[Section]:
    """Return the sections of a text whose lines end in \\n; a text that docutils cannot parse is one section."""
    try:
        headings = list(_headings(text))
    except Exception as error:  # docutils raises errors of many types for texts that nobody wrote by hand
        raise_of_handler(error)
        headings = []
    return sections_below(headings, title, 0, text.count("\n") + 1)


def _headings(text: str) -> Iterator[Heading]:
    from docutils import frontend, nodes, utils
    from docutils.parsers.rst import Parser, states

    class Body(states.Body):  # type: ignore[misc]
        """Leaves the content of directives unread."""

        def directive(self, match: Any, **options: Any) -> Any:
            return self.unknown_directive(match.group(1))

    inliner = states.Inliner()
    parse_inline, memos = inliner.parse, list[Any]()

    def unparsed(text: str, lineno: int, memo: Any, parent: Any) -> Any:
        memos[:] = [memo]
        return [nodes.Text(text)], []

    inliner.parse = unparsed  # no inline markup is parsed here, and that of headings below
    parser = Parser(inliner=inliner)
    parser.state_classes = tuple(Body if each is states.Body else each for each in states.state_classes)
    settings = frontend.get_default_settings(Parser)
    for name, value in _SETTINGS.items():
        setattr(settings, name, value)
    document = utils.new_document("", settings)
    parser.parse(text.translate(_LINE_ENDS), document)
    text_lines = text.split("\n")
    lines = [line.strip() for line in text_lines]
    for section in document.findall(nodes.section):
        level, parent = 1, section.parent
        while isinstance(parent, nodes.section):
            level, parent = level + 1, parent.parent
        found, _ = parse_inline(section[0].rawsource, section.line, memos[0], section)
        seen = _ROLE.sub(r"\1", "".join(each.astext() for each in found))
        underline = section.line - 1
        first = underline - (2 if underline > 1 and lines[underline - 2] == lines[underline] else 1)
        yield Heading(level, " ".join(seen.split()), _with_labels(text_lines, first), underline + 1)


def _with_labels(lines: list[str], first: int) -> int:
    """Return the line where a heading starts together with its labels; without them, it starts at ``first``."""
    for above in range(first - 1, -1, -1):
        if _LABEL.match(lines[above]):
            first = above
        elif lines[above].strip():
            break
    return first
