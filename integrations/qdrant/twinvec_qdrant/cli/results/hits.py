"""Hits as a terminal shows them: title, file, lines or pages, and the passage with the query's words marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinvec.cli.terminal import indented
from twinvec.escaping import CONTROL
from twinvec.retrieval.base import Hit, Passage, body_start
from twinvec.retrieval.windows import Block, blocks
from twinvec_qdrant.asking import FoundHit

if TYPE_CHECKING:
    from rich.text import Text

_WIDEST = 100  # columns, because longer lines are hard to read
_INDENT = 4
_MATCH = "bold yellow"
_WORD = re.compile(r"(?:(?<=\n)>[>\s]*)?(\S+)")  # a word, after the > of a Markdown quotation at the start of its line
_HARMLESS = "\n\t\u00ad\u200b\u200c\u200d\u2060\ufeff"  # if joiners or soft hyphens became spaces, words would be split
_LINE = re.compile(r"[^\n]*\S[^\n]*")
# names of files of code, settings or records, whose lines must not be joined
_OF_LINES = re.compile(
    r"(?:^|/)(?:docker|make)file(?:\.(?!md|txt|pdf|html?|rst)[\w-]+)?$|\.(?:bash|bat|cc?|cfg|cmd|conf|cpp|css?|cts|diff|env|go|gradle|h|hpp|ini|java|jsx?|json|"
    r"kt|log|lua|mjs|mts|patch|php|pl|properties|ps1|py|rb?|rs|scala|sh|sql|srt|swift|tf|toml|tsx?|vue|xml|ya?ml|zsh)$",
    re.IGNORECASE,
)
_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


@dataclass(frozen=True, slots=True)
class ShownHit:
    """A hit with its file, and the first and last line and page of its passage, if they are known."""

    found: FoundHit
    file: Path | None = None  # the document's file, if this machine has it
    lines: tuple[int, int] | None = None
    pages: tuple[int, int] | None = None

    @property
    def hit(self) -> Hit:
        return self.found.hit


def rendered(ranked: Iterable[tuple[int, ShownHit]], *, full: bool, explain: bool) -> Iterator[Text]:
    """Yield the lines of hits: name, location, passage (or the whole text if ``full``), scores if ``explain``.

    Args:
        ranked: The hits, each with its rank. If a hit has the passage of an earlier one, only the first shows it.
    """
    ranks: dict[str, int] = {}
    for rank, shown in ranked:
        text = _text(shown, full=full)
        yield from _of_hit(rank, shown, text, ranks.setdefault(text.plain, rank), explain=explain)


def _of_hit(rank: int, shown: ShownHit, text: Text, first: int, *, explain: bool) -> Iterator[Text]:
    """Yield the lines of one hit; ``first`` is the rank of the first hit with the same passage."""
    from rich.text import Text

    name = linked(_name(shown), shown.file)
    if shown.hit.relevance is not None:
        name = Text.assemble(name, (f"  {shown.hit.relevance:.0%}", "cyan"))
    yield Text(f"{rank}. ".ljust(_INDENT)).append_text(indented(name, _INDENT, _WIDEST)[_INDENT:])
    if first != rank and text.plain:
        text = Text(f"the same passage as hit {first}", "dim")
    scores = "  ".join(f"{stage} {value:.3f}" for stage, value in shown.hit.scores.items())
    if explain and list(shown.hit.scores.values())[-1:] != [shown.hit.score]:
        scores += f"  score {shown.hit.score:.3f}"  # a reranker has mixed two scores
    below = [Text(" · ".join(_place(shown)), "dim"), text, Text(scores if explain else "", "dim")]
    yield from (indented(part, _INDENT, _WIDEST) for part in below if part.plain)
    yield Text()


def linked(name: str, file: Path | None) -> Text:
    """Return a name with a link to its file, for terminals that show links."""
    from rich.style import Style
    from rich.text import Text

    return Text(name, Style(bold=True, link=file.as_uri() if file else None))


def place(shown: ShownHit) -> str:
    """Return the location of a hit, for scripts: PATH:LINE, PATH if the line is unknown, or an id without a file."""
    if shown.file is None:
        return copyable(shown.hit.id)
    folder = Path.cwd()
    path = shown.file.relative_to(folder) if shown.file.is_relative_to(folder) else shown.file
    return copyable(str(path)) + (f":{shown.lines[0]}" if shown.lines else "")


def _name(shown: ShownHit) -> str:
    """Return the title of the document, or its id without a title."""
    title = shown.hit.payload.get("title")
    return printable(title) if isinstance(title, str) and title.strip() else copyable(shown.hit.id)


def _place(shown: ShownHit) -> Iterator[str]:
    """Yield the parts of the passage's location that are known, such as id, heading, page and line."""
    name, payload = _name(shown), shown.hit.payload
    if shown.found.collection:
        yield shown.found.collection
    if name != (identity := copyable(shown.hit.id)):
        yield identity
    heading = payload.get("heading")
    if isinstance(heading, str) and heading:
        parts = heading.split(" > ")
        if parts[0] in (payload.get("title"), payload.get("path"), shown.found.source.rpartition("/")[2]):
            parts = parts[1:]
        if parts:
            yield printable(" > ".join(parts))
    if shown.pages:
        yield _range("page", *shown.pages)
    if shown.lines:
        yield _range("line", *shown.lines)
    if shown.found.described:
        yield printable(shown.found.described)


def _range(what: str, first: int, last: int) -> str:
    return f"{what} {first}" if first == last else f"{what}s {first}-{last}"


def _text(shown: ShownHit, *, full: bool) -> Text:
    """Return the passage of a hit, or its whole text, with the matches marked."""
    passage = shown.hit.passage
    if full or passage is None:
        passage = _whole(shown.hit, body_start(shown.hit))
    return _marked(shown.hit.text, passage, prose=not _OF_LINES.search(shown.found.source))


def _whole(hit: Hit, body: int) -> Passage:
    """Return a passage of the whole text of a hit, with the matches of the hit's passage."""
    found = hit.passage
    matches = () if found is None else tuple((found.start + a - body, found.start + b - body) for a, b in found.matches)
    return Passage(hit.text[body:], body, len(hit.text), matches)


def _marked(text: str, passage: Passage, *, prose: bool) -> Text:
    """Return a passage of a text with its matches marked.

    If the text has ``prose``, its paragraphs are joined into one line each. Lists, tables and code keep their lines,
    without their common indentation.
    """
    from rich.text import Text

    # ``blocks`` gets whole lines, because a part of a line of code may look like prose
    first = text.rfind("\n", 0, passage.start) + 1
    before = passage.start - first
    begin = before if text[first : passage.start].strip() else 0
    whole = text[first : passage.end]
    marked = Text(safe(whole))
    for start, end in passage.matches:
        marked.stylize(_MATCH, before + start, before + end)
    lines: list[tuple[Text, bool]] = []
    for block in blocks(whole) if prose else _lines(whole):
        line = marked[max(block.start, begin) : block.end]
        if block.prose:
            line = Text(" ").join(line[word.start(1) : word.end(1)] for word in _WORD.finditer(line.plain))
        line.expand_tabs(4)
        lines.append((line, block.prose))
    common = min((len(line) - len(line.plain.lstrip()) for line, prose in lines if not prose), default=0)
    return Text("\n").join(line if prose else line[common:] for line, prose in lines)


def _lines(text: str) -> Iterator[Block]:
    """Yield each line that is not empty as a block of its own."""
    return (Block(*line.span(), prose=False) for line in _LINE.finditer(text))


def copyable(name: str) -> str:
    """Return an id or a path in one line; with control characters, quoted for a shell as in $'a\\tb'."""
    if not CONTROL.search(name):
        return name
    return "$'" + CONTROL.sub(_escape, re.sub(r"(['\\])", r"\\\1", name)) + "'"


def _escape(character: re.Match[str]) -> str:
    octets = character[0].encode("utf-8", "surrogateescape")
    return _ESCAPES.get(character[0]) or "".join(f"\\x{each:02x}" for each in octets)


def printable(text: str) -> str:
    """Return a text in one line, without control characters."""
    return " ".join(safe(text).split())


def safe(text: str) -> str:
    """Replace control characters by spaces, so that the length of the text stays the same."""
    return "".join(c if c.isprintable() or c in _HARMLESS else " " for c in text)
