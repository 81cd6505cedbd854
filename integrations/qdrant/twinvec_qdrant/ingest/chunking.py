"""Chunking: a document -> chunks that fit into the model, each below the headings that it stands under.

semantic-text-splitter chooses the cuts, and markdown-it-py finds the headings of Markdown. This file makes the sections
and their heading paths ("Guide > Install"), and reserves room for heading, prompt and special tokens. Every word stays:
the part of a heading that does not fit into the heading path remains in the body.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from twinvec.errors import ConfigurationError
from twinvec.retrieval.documents import Document
from twinvec.tokens.tokenizer import TextTokenizer
from twinvec_qdrant.encoders import truncated
from twinvec_qdrant.ingest.front_matter import MARKDOWN_SUFFIXES, split_front_matter
from twinvec_qdrant.settings import ChunkSettings

if TYPE_CHECKING:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

_SMALLEST_ROOM = 8  # tokens for heading and body together; a smaller chunk would hold no useful text
_MARGIN = 2  # heading and body may have more tokens together than each alone
_STEP = 8  # token capacities are multiples of this, so that few splitters serve all headings
_FILL = 0.92  # share of the capacity to aim at when cutting by characters: few pieces are then too long
_WINDOW = 32_768  # characters a splitter gets at once: its time grows faster than the text
_CHARACTERS_PER_TOKEN = 16  # upper bound: a word of 10,000 letters may be one token, and is cut by characters


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    Attributes:
        text: Exactly what is embedded: heading, blank line, body.
        heading: The document's title and the headings above the piece, "Guide > Install"; may be empty.
        position: Its place in the document, from 0.
        truncated: Whether the model truncates it.
    """

    text: str
    heading: str
    position: int
    truncated: bool


class Chunker:
    """Cuts documents for one encoder.

    Args:
        encoder: A ``twinvec.Encoder``; with chunking off, also an encoder without ``tokenizer``.
        settings: How to cut.

    Raises:
        ConfigurationError: chunking needs a tokenizer that the encoder lacks, or the limit leaves no room for text.
    """

    def __init__(self, encoder: object, settings: ChunkSettings | None = None) -> None:
        self.settings = settings or ChunkSettings()
        self._encoder = encoder
        tokenizer = getattr(encoder, "tokenizer", None)
        self._tokenizer = tokenizer if isinstance(tokenizer, TextTokenizer) else None
        self._prompt: str = getattr(encoder, "document_prompt", "")
        if not self.settings.enabled:
            return
        if self._tokenizer is None:
            raise ConfigurationError(
                f"{type(encoder).__name__} has no tokenizer to measure chunks with; cut the documents yourself and "
                "switch chunking off (ChunkSettings(enabled=False))"
            )
        model_limit = self._tokenizer.max_tokens
        self._limit = self.settings.max_tokens or model_limit
        if self._limit > model_limit:
            raise ConfigurationError(f"chunks of {self._limit} tokens: the model reads at most {model_limit}")
        self._room = self._limit - int(self._tokenizer.count([self._prompt])[0])
        if self._room < _SMALLEST_ROOM:
            raise ConfigurationError(
                f"chunks of {self._limit} tokens: prompt and special tokens leave {self._room} for the text, "
                f"expected at least {_SMALLEST_ROOM}"
            )
        if self.settings.overlap > self._room // 2:
            raise ConfigurationError(
                f"an overlap of {self.settings.overlap} tokens: expected at most {self._room // 2}, half of a chunk"
            )
        self._by_tokens = lru_cache(maxsize=64)(self._new_by_tokens)

    def chunks(self, document: Document) -> list[Chunk]:
        """Return the chunks of a document, in order; a blank document has none."""
        whole = (document.title, document.full_text)
        pieces = [each for each in (self._pieces(document) if self.settings.enabled else [whole]) if each[1].strip()]
        cut = truncated(self._encoder, [text for _, text in pieces])
        return [Chunk(text, heading, row, cut[row]) for row, (heading, text) in enumerate(pieces)]

    def _pieces(self, document: Document) -> Iterator[tuple[str, str]]:
        """Yield the heading of every chunk, and its text, which includes the heading."""
        markdown = _is_markdown(document)
        parts = [document.title] if document.title.strip() else []
        if self._fits(document.full_text) and not (markdown and "\n" in document.text.strip()):
            yield document.title, document.full_text
            return
        sections = _markdown_sections(document.text, parts) if markdown else [(parts, document.text)]
        headings = [self._heading(path) for path, _ in sections]
        for index, (path, body) in enumerate(sections):
            heading = headings[index]
            if path and heading != _join(path):
                body = f"{path[-1]}\n\n{body}"
            if not body.strip() and index + 1 < len(sections) and headings[index + 1].startswith(heading):
                continue  # the next section repeats this heading
            for piece in self._split(body, heading, markdown):
                yield heading, _under(heading, piece)

    def _heading(self, path: Sequence[str]) -> str:
        """Return the heading path, truncated to a third of the room: its last parts, or the start of the last part."""
        room = max(self._room // 3, 1)
        for start in range(len(path)):
            heading = _join(path[start:])
            if self._tokens(heading, room) <= room:
                return heading
        longest = path[-1][: room * _CHARACTERS_PER_TOKEN] if path else ""
        pieces = self._by_tokens(room, False).chunks(longest)
        return pieces[0].strip() if pieces else ""

    def _split(self, body: str, heading: str, markdown: bool) -> Iterator[str]:
        """Yield the pieces of a section's body; an empty body gives one empty piece."""
        whole = _trimmed(body)
        if not whole or self._fits(_under(heading, whole)):
            yield whole
            return
        capacity = self._room - self._tokens(heading, self._room) - _MARGIN
        for window in _windows(body):
            yield from filter(None, map(_trimmed, self._cut(window, capacity, markdown)))

    def _cut(self, text: str, capacity: int, markdown: bool) -> Iterator[str]:
        """Yield pieces of at most ``capacity`` tokens: cut by characters, which is fast, and longer ones by tokens."""
        assert self._tokenizer is not None
        a_token = min(len(text) / max(int(self._tokenizer.count([text])[0]), 1), _CHARACTERS_PER_TOKEN)
        pieces = self._by_characters(max(int(capacity * a_token * _FILL), 1), markdown).chunks(text)
        for piece, count in zip(pieces, self._tokenizer.count(pieces).tolist(), strict=True):
            if count <= capacity:
                yield piece
            else:
                parts = -(-count // capacity)
                even = min(capacity, count // parts + capacity // 8)  # equal parts instead of a full and a tiny one
                yield from self._by_tokens(max(even // _STEP * _STEP, 1), markdown).chunks(piece)

    def _by_characters(self, capacity: int, markdown: bool) -> MarkdownSplitter | TextSplitter:
        overlap = capacity * self.settings.overlap // self._room
        return _splitter(markdown)(capacity, overlap=overlap, trim=False)

    def _new_by_tokens(self, capacity: int, markdown: bool) -> MarkdownSplitter | TextSplitter:
        assert self._tokenizer is not None
        overlap = min(self.settings.overlap, capacity - 1)
        tokenizer = self._tokenizer.for_chunking()
        return _splitter(markdown).from_huggingface_tokenizer(tokenizer, capacity, overlap=overlap, trim=False)

    def _fits(self, text: str) -> bool:
        return len(text) <= self._limit * _CHARACTERS_PER_TOKEN and self._tokens(text, self._room) <= self._room

    def _tokens(self, text: str, room: int) -> int:
        """Count the tokens that a text adds to the prompt; return ``room + 1`` for a text that is certainly longer."""
        assert self._tokenizer is not None
        if len(text) > room * _CHARACTERS_PER_TOKEN:
            return room + 1
        return int(self._tokenizer.count([self._prompt + text])[0]) - (self._limit - self._room)


def _splitter(markdown: bool) -> type[MarkdownSplitter | TextSplitter]:
    from semantic_text_splitter import MarkdownSplitter, TextSplitter

    return MarkdownSplitter if markdown else TextSplitter


def _is_markdown(document: Document) -> bool:
    """Return whether the text is Markdown: by the payload's ``format``, or else by the ending of the id."""
    stated = document.payload.get("format")
    return stated == "markdown" if stated is not None else document.id.lower().endswith(MARKDOWN_SUFFIXES)


def _markdown_sections(text: str, title: list[str]) -> list[tuple[list[str], str]]:
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


def _windows(text: str) -> Iterator[str]:
    """Yield the text in parts of bounded size, cut at an empty line, else at a line's end, else at a space."""
    start = 0
    while len(text) - start > _WINDOW:
        end = start + _WINDOW
        for mark in ("\n\n", "\n", " "):
            found = text.rfind(mark, start + _WINDOW // 2, end)
            if found >= 0:
                end = found + len(mark)
                break
        yield text[start:end]
        start = end
    yield text[start:]


def _trimmed(piece: str) -> str:
    """Remove the empty lines around a piece; the first line keeps its indentation."""
    return piece.strip("\r\n").rstrip()


def _join(path: Sequence[str]) -> str:
    return " > ".join(path)


def _under(heading: str, body: str) -> str:
    return f"{heading}\n\n{body}" if heading and body else heading or body
