"""Chunking: cuts a document into chunks that fit into the model; each chunk begins with its heading path.

semantic-text-splitter chooses the cuts. ``markdown``, ``restructured_text`` and ``code`` make the sections and their
heading paths ("Guide > Install", "app.py > class Server > def start"). ``path_headings`` lists other files whose path
is their heading. This file reserves room for heading, prompt and special tokens. No word that a reader sees is lost: a
heading that does not fit into the heading path stays in the body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

from twinvec.errors import ConfigurationError, DocumentError, EngineError, MissingExtraError
from twinvec.retrieval.documents import Document
from twinvec.support.checks import check_settings, integer
from twinvec.tokens.tokenizer import TextTokenizer
from twinvec_qdrant.encoders import as_read
from twinvec_qdrant.ingest.cutting.chunk_pages import BREAK, pages_of_pieces, with_breaks
from twinvec_qdrant.ingest.cutting.code import code_language, code_name, code_sections, grammar
from twinvec_qdrant.ingest.cutting.markdown import markdown_sections
from twinvec_qdrant.ingest.cutting.path_headings import path_heading
from twinvec_qdrant.ingest.cutting.restructured_text import restructured_text_sections
from twinvec_qdrant.ingest.cutting.sections import bodies, with_line_feeds
from twinvec_qdrant.ingest.cutting.surroundings import surrounded
from twinvec_qdrant.ingest.markup import markup_of
from twinvec_qdrant.ingest.reading.results import PagedDocument
from twinvec_qdrant.settings import NEWEST_READING, ChunkSettings

_SMALLEST_ROOM = 8  # tokens for heading and body together; a smaller chunk would hold no useful text
_MARGIN = 2  # heading and body joined may have more tokens than both counted separately
_STEP = 8  # token capacities are multiples of this, so that few splitters serve all headings
_FILL = 0.92  # share of the capacity to aim at when cutting by characters: few pieces are then too long
_WINDOW = 32_768  # characters a splitter gets at once: its time grows faster than the text
_SPLITTERS = ("text", "markdown", "rst")  # the kinds of text that are not code
_FENCE = re.compile(r"\s*(?:```|~~~)[^\n]*\s*")
_WORD = re.compile(r"\w")
_CHARACTERS_PER_TOKEN = 16  # upper limit, because a word of 10,000 letters may be one token


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document.

    Attributes:
        text: Heading, blank line, body.
        heading: The document's title and the headings above the piece, "Guide > Install"; may be empty.
        position: Number of the chunk in the document, from 0.
        truncated: Whether the model truncates the chunk.
        page: The page on which the chunk starts, from 1; None if the page is not known.
        unknown: Whether the chunk consists mostly of words that the model does not know.
        in_context: The text, followed by the text again with the sentences around it; None without
            ``ChunkSettings.surroundings``.
    """

    text: str
    heading: str
    position: int
    truncated: bool
    page: int | None = field(default=None, kw_only=True)
    unknown: bool = field(default=False, kw_only=True)
    in_context: str | None = field(default=None, kw_only=True)

    @property
    def embedded(self) -> str:
        """The exact text that is embedded, and whose words a sparse search finds."""
        return self.text if self.in_context is None else self.in_context


class _Piece(NamedTuple):
    """A chunk to make: its heading, its text with the heading, its body without the heading, its text in context."""

    heading: str
    text: str
    body: str
    in_context: str | None = None


class Chunker:
    """Cuts documents for one encoder.

    Args:
        encoder: A ``twinvec.Encoder``; with chunking off, also an encoder without ``tokenizer``.
        settings: How to cut.
        reading: The collection's reading version. Since version 6, headings of Markdown lose their markup, and those of
            reStructuredText count. Since version 7, the path is the heading of files that people know by name.

    Raises:
        ConfigurationError: chunking needs a tokenizer that the encoder lacks, or the limit leaves no room for text.
    """

    def __init__(
        self, encoder: object, settings: ChunkSettings | None = None, *, reading: int = NEWEST_READING
    ) -> None:
        check_settings(settings, ChunkSettings, "settings")
        self._reading = integer(reading, "reading")
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
            raise ConfigurationError(f"chunks of {self._limit} tokens are too large: the model reads {model_limit}")
        self._room = self._limit - int(self._tokenizer.count([self._prompt])[0])
        if self._room < _SMALLEST_ROOM:
            raise ConfigurationError(
                f"chunks of {self._limit} tokens are too small: the text needs at least {_SMALLEST_ROOM} tokens, but "
                f"prompt and special tokens leave {self._room}"
            )
        if self.settings.overlap > self._room // 2:
            raise ConfigurationError(
                f"an overlap of {self.settings.overlap} tokens is too large: the limit is {self._room // 2}, half of a "
                "chunk"
            )
        self._by_tokens = lru_cache(maxsize=64)(self._new_by_tokens)
        if self.settings.surroundings:
            self._measuring = self._tokenizer.for_chunking()

    def ways(self, document: Document) -> dict[str, Any]:
        """Return the settings that decide how this document is cut: the language of its code, and its pages."""
        ways: dict[str, Any] = {}
        if self.settings.enabled:
            language = code_language(document)
            if language is not None and language in (self.settings.code or ()):
                ways["code"] = language
            if self.settings.pages and isinstance(document, PagedDocument) and document.pages:
                ways["pages"] = list(document.pages)
        return ways

    def chunks(self, document: Document) -> list[Chunk]:
        """Return the chunks of a document, in order; a blank document has none.

        Raises:
            DocumentError: the document is code, and the grammar of its language is not installed.
        """
        ways = self.ways(document)
        if self.settings.enabled and "code" not in ways and self._reading >= 7 and (path := path_heading(document)):
            document = replace(document, title=path)
        starts: list[int] = []
        if "pages" in ways:
            text, starts = with_breaks(document.text, ways["pages"])
            document = replace(document, text=text)
        whole = _Piece(document.title, document.full_text, document.text)
        pieces = self._pieces(document, ways.get("code")) if self.settings.enabled else [whole]
        found = [each for each in pieces if each.text.strip()]
        read = as_read(self._encoder, [each.text for each in found])
        pages: Sequence[int | None] = [None] * len(found)
        if starts:
            pages = pages_of_pieces([each.body for each in found], document.text, starts)
        return [
            Chunk(
                each.text,
                each.heading,
                row,
                read[row].truncated,
                page=pages[row],
                unknown=read[row].unknown,
                in_context=each.in_context,
            )
            for row, each in enumerate(found)
        ]

    def _pieces(self, document: Document, language: str | None) -> Iterator[_Piece]:
        kind = language or self._kind_of_text(document)
        parts = [document.title] if document.title.strip() else []
        fits = language is None and self._fits(document.full_text)
        if fits and (kind == "text" or "\n" not in document.text.strip()):
            yield _Piece(document.title, document.full_text, document.text)
            return
        if language is not None:
            sections = self._code_sections(document, language)
        elif kind == "text":
            sections = [(parts, document.text)]
        else:
            text = with_line_feeds(document.text)
            if kind == "markdown":
                located = markdown_sections(text, parts, plain=self._reading >= 6)
            else:
                located = restructured_text_sections(text, parts)
            sections = bodies(text, located)
        headings = [self._heading(path) for path, _ in sections]
        for index, (path, body) in enumerate(sections):
            heading = headings[index]
            if path and heading != _join(path) and language is None:
                body = f"{path[-1]}\n\n{body}"
            following = headings[index + 1] if index + 1 < len(sections) else ""
            if not body.strip() and _join([following, ""]).startswith(_join([heading, ""])):
                continue  # the next heading path begins with this one
            yield from self._in_context(
                body, [_Piece(heading, _under(heading, piece), piece) for piece in self._split(body, heading, kind)]
            )

    def _kind_of_text(self, document: Document) -> str:
        markup = markup_of(document)
        return "text" if markup == "rst" and self._reading < 6 else markup

    def _code_sections(self, document: Document, language: str) -> list[tuple[list[str], str]]:
        file = [document.title if document.title.strip() else code_name(document)]
        try:
            return code_sections(
                document.text, language, file, lambda path, body: self._fits(_under(self._heading(path), body))
            )
        except (EngineError, MissingExtraError) as error:
            raise DocumentError(f"document {document.id!r}: {error}") from error

    def _heading(self, path: Sequence[str]) -> str:
        """Return the heading path, truncated to a third of a chunk: its last headings, or the last one's start."""
        room = max(self._room // 3, 1)
        for start in range(len(path)):
            heading = _join(path[start:])
            if self._tokens(heading, room) <= room:
                return heading
        longest = path[-1][: room * _CHARACTERS_PER_TOKEN] if path else ""
        pieces: list[str] = self._by_tokens(room, "text").chunks(longest)
        return pieces[0].strip() if pieces else ""

    def _split(self, body: str, heading: str, kind: str) -> Iterator[str]:
        """Yield the pieces of a section's body; an empty body gives one empty piece."""
        whole = _trimmed(body)
        if not whole or self._fits(_under(heading, whole)):
            yield whole
            return
        capacity = self._room - self._tokens(heading, self._room) - _MARGIN
        for window in _windows(body):
            pieces: Iterable[str] = self._cut(window, capacity, kind)
            if kind not in _SPLITTERS and not self.settings.overlap:
                pieces = self._joined(pieces, capacity)
            elif kind == "markdown":
                pieces = self._with_fences(pieces, heading)
            if kind in _SPLITTERS and not self.settings.overlap:
                pieces = self._with_introductions(pieces, heading)
            yield from filter(None, map(_trimmed, pieces))

    def _in_context(self, section: str, pieces: Sequence[_Piece]) -> Sequence[_Piece]:
        """Return the pieces of a section with their text in context, if the model has room for it.

        The text in context has the piece twice: alone, and with the text around it. So the words of the piece count
        more than the words around it.
        """
        if not self.settings.surroundings or len(pieces) < 2:
            return pieces
        assert self._tokenizer is not None
        longest = self._tokenizer.max_tokens
        rooms = longest - _MARGIN - 2 * self._tokenizer.count([self._prompt + each.text for each in pieces])
        bodies = [each.body for each in pieces]
        around = list(surrounded(section, bodies, rooms.tolist(), self.settings.surroundings, self._measuring))
        texts = [f"{each.text}\n\n{text}" for each, text in zip(pieces, around, strict=True)]
        counts = self._tokenizer.count([self._prompt + text for text in texts])
        return [
            piece._replace(in_context=text) if len(wide) > len(piece.body) and count <= longest else piece
            for piece, wide, text, count in zip(pieces, around, texts, counts.tolist(), strict=True)
        ]

    def _with_fences(self, pieces: Iterable[str], heading: str) -> Iterator[str]:
        """Join the opening fence of a long code block with the code after it, which the splitter separates.

        A fence that does not fit there becomes a piece of its own if it has a word, such as the name of a language.
        Otherwise it is dropped.
        """
        fence = ""
        for piece in chain(pieces, [""]):
            if _FENCE.fullmatch(piece):
                fence += piece
            elif self._fits(_under(heading, _trimmed(fence + piece))) and piece:
                yield fence + piece
                fence = ""
            else:
                yield from (fence, piece) if _WORD.search(fence) else (piece,)
                fence = ""

    def _with_introductions(self, pieces: Iterable[str], heading: str) -> Iterator[str]:
        """Move a last paragraph that ends with a colon into the next piece, which it introduces, if it fits there."""
        before = ""
        for piece in pieces:
            if (whole := before.rstrip()).endswith(":"):
                start = whole.rfind("\n\n") + 1
                joined = before[start:] + piece
                if self._fits(_under(heading, _trimmed(joined))):
                    before, piece = before[:start], joined
            yield before
            before = piece
        yield before

    def _joined(self, pieces: Iterable[str], capacity: int) -> Iterator[str]:
        """Join neighbouring pieces of code that fit together: the splitter separates a function's head from its body.

        A line keeps its indentation, which the splitter leaves at the end of the piece before.
        """
        joined = indentation = ""
        for piece in pieces:
            piece = indentation + piece
            if joined and self._tokens(joined + piece, self._room) > capacity:
                yield joined
                joined = ""
            lines, end, last = (joined + piece).rpartition("\n")
            joined, indentation = (joined + piece, "") if last.strip() else (lines + end, last)
        yield joined + indentation

    def _cut(self, text: str, capacity: int, kind: str) -> Iterator[str]:
        """Yield pieces of at most ``capacity`` tokens: cut by characters (fast), and again by tokens if too long."""
        assert self._tokenizer is not None
        a_token = min(len(text) / max(int(self._tokenizer.count([text])[0]), 1), _CHARACTERS_PER_TOKEN)
        characters = max(int(capacity * a_token * _FILL), 1)
        splitter, of_code = _splitter(kind)
        overlap = characters * self.settings.overlap // self._room
        pieces = splitter(*of_code, characters, overlap=overlap, trim=False).chunks(text)
        for piece, count in zip(pieces, self._tokenizer.count(pieces).tolist(), strict=True):
            if count <= capacity:
                yield piece
            else:
                parts = -(-count // capacity)
                even = min(capacity, count // parts + capacity // 8)  # equal parts instead of a full and a tiny one
                yield from self._by_tokens(max(even // _STEP * _STEP, 1), kind).chunks(piece)

    def _new_by_tokens(self, capacity: int, kind: str) -> Any:
        assert self._tokenizer is not None
        splitter, of_code = _splitter(kind)
        tokenizer, overlap = self._tokenizer.for_chunking(), min(self.settings.overlap, capacity - 1)
        return splitter.from_huggingface_tokenizer(*of_code, tokenizer, capacity, overlap=overlap, trim=False)

    def _fits(self, text: str) -> bool:
        return len(text) <= self._limit * _CHARACTERS_PER_TOKEN and self._tokens(text, self._room) <= self._room

    def _tokens(self, text: str, room: int) -> int:
        """Count the tokens that a text adds to the prompt; return ``room + 1`` for a text that is certainly longer."""
        assert self._tokenizer is not None
        if len(text) > room * _CHARACTERS_PER_TOKEN:
            return room + 1
        return int(self._tokenizer.count([self._prompt + text])[0]) - (self._limit - self._room)


def _splitter(kind: str) -> tuple[Any, tuple[object, ...]]:
    """Return the class of the splitter for a kind of text, and its first arguments, which are the grammar for code."""
    from semantic_text_splitter import CodeSplitter, MarkdownSplitter, TextSplitter

    if kind in _SPLITTERS:
        return MarkdownSplitter if kind == "markdown" else TextSplitter, ()
    return CodeSplitter, (grammar(kind),)


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
    """Remove the empty lines and page breaks around a piece; the first line keeps its indentation."""
    return piece.strip(f"\r\n{BREAK}").rstrip()


def _join(path: Sequence[str]) -> str:
    return " > ".join(path)


def _under(heading: str, body: str) -> str:
    return f"{heading}\n\n{body}" if heading and body else heading or body
