"""Places of hits: the documents' files on this machine, and the lines or pages in them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from twinvec.errors import DocumentError
from twinvec.retrieval.base import Hit, body_start, pages_of
from twinvec.retrieval.documents import Document
from twinvec.retrieval.windows import whole_lines
from twinvec_qdrant.asking import FoundHit
from twinvec_qdrant.cli.results.hits import ShownHit
from twinvec_qdrant.ingest.cutting.markdown import markdown_sections
from twinvec_qdrant.ingest.cutting.restructured_text import restructured_text_sections
from twinvec_qdrant.ingest.cutting.sections import Section, with_line_feeds
from twinvec_qdrant.ingest.markup import markup_of
from twinvec_qdrant.ingest.reading.decoding import decode, without_data_uris, without_escapes
from twinvec_qdrant.ingest.reading.files import SLOW_SUFFIXES, is_slow
from twinvec_qdrant.settings import NEWEST_READING
from twinvec_qdrant.stored_roots import StoredRoot, owner

RootsOf = Mapping[str, Iterable[StoredRoot]]
"""The roots of each searched collection, by its name, or by "" if only one collection was searched."""

_LARGEST = 8 * 1024 * 1024  # bytes of the largest file whose lines are numbered
_GUESSES = (NEWEST_READING, 8, 4)  # reading versions that guess encodings in different ways
_Cut = Callable[[str, list[str]], Sequence[Section]]
_CUTS: Mapping[str, Sequence[_Cut]] = {
    "markdown": [
        partial(markdown_sections, toml=toml, plain=plain) for toml, plain in product((False, True), (True, False))
    ],
    "rst": [restructured_text_sections],
}
"""Markup -> functions that cut a text into sections, one for each way in which reading versions do it.

In older versions, TOML front matter is text, and headings keep their Markdown markup.
"""


class Places:
    """Finds the files of a collection's documents, and the lines of hits in these files, by the collection's roots."""

    def __init__(self, roots: Iterable[StoredRoot]) -> None:
        self._roots = {root.name: root for root in roots}
        self._read = cache(_read)

    def described(self, source: str) -> str:
        """Return the user's description of a document's source, or ""."""
        root = owner(self._roots, source)
        return root.description(source) if root else ""

    def file(self, source: str) -> Path | None:
        """Return the document's file; None if the document is one record of a file, or not on this machine."""
        root = owner(self._roots, source)
        if root is None or root.location is None or not root.is_local():
            return None
        location, name = Path(root.location), source.removeprefix(root.prefix)
        try:
            path = location / name if location.is_dir() else location
            return path if path.is_file() and (path != location or name == location.name) else None
        except (OSError, ValueError):  # the id is not a valid path
            return None

    def ids(self, path: Path) -> list[str]:
        """Return the ids that the document of a file would have in the collection; the file may be gone."""
        whole = Path(os.path.abspath(path))
        whole = Path(os.path.realpath(whole.parent), whole.name)  # as locations are stored; a file may be a link itself
        ids = []
        for root in self._roots.values():
            if root.location is not None and root.is_local() and whole.is_relative_to(root.location):
                name = whole.relative_to(root.location).as_posix() if whole != Path(root.location) else whole.name
                ids.append(root.prefix + name)
        return ids

    def text(self, path: Path, payload: Mapping[str, Any]) -> str | None:
        """Return the text of a document's file, with line ends \\n as in chunks; None if it is not a text file.

        Files that an ingest converts, such as PDFs and web pages, do not count as text files. Web archives and RTF do
        in collections of older versions, which ingested them as text.
        """
        suffix = path.suffix.lower()
        if is_slow(suffix, 1) or (suffix in SLOW_SUFFIXES and payload.get("format") != "text"):
            return None
        return self._read(path, str(payload.get("encoding") or ""))

    def lines(self, source: str, hit: Hit, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last line of ``hit.text[start:end]`` in its file, from 1; None if unknown."""
        path = self.file(source)
        text = None if path is None else self.text(path, hit.payload)
        if text is None or start == end:
            return None
        body = body_start(hit)
        before, passage = with_line_feeds(hit.text[body:start]), with_line_feeds(hit.text[start:end])
        for read in _readings(text):
            at = _only_place(read, with_line_feeds(hit.text[body:]), source, hit)
            found = _only_place(read, passage, source, hit) if at is None else at + len(before)
            if found is not None:
                first = read.count("\n", 0, found) + 1
                return first, first + passage.count("\n")
        return None


def placed(hits: Iterable[FoundHit], roots: RootsOf, *, full: bool) -> list[ShownHit]:
    """Return hits with the places of their passages, or if ``full`` of their whole texts."""
    places = {name: Places(each) for name, each in roots.items()}
    return [_placed(each, places[each.collection], full) for each in hits]


def _placed(found: FoundHit, places: Places, full: bool) -> ShownHit:
    hit = found.hit
    start, end = body_start(hit), len(hit.text)
    if hit.passage is not None and not full:
        start, end = hit.passage.start, hit.passage.end
    lines = places.lines(found.source, hit, start, end)
    return ShownHit(found, places.file(found.source), lines, pages_of(hit, start, end))


@lru_cache(maxsize=8)
def _readings(text: str) -> list[str]:
    """Return the different forms that the text of a file has in the reading versions, the newest first."""
    plain = without_escapes(text)
    return list(dict.fromkeys((without_data_uris(plain), plain, without_data_uris(text), text)))


def _only_place(text: str, part: str, source: str, hit: Hit) -> int | None:
    """Return the offset of a part of a hit in the text of its file; None if it does not occur exactly once.

    Occurrences as whole lines come first. If there are several, or if the part begins or ends within a line, only
    occurrences below the hit's heading count.
    """
    found = whole_lines(text, part)
    if len(found) != 1:
        again = found or [each.start() for each in re.finditer(re.escape(part), text)]
        sections = _below_heading(text, source, hit) if again else []
        found = [at for at in again if any(at in each for each in sections)]
    return found[0] if len(found) == 1 else None


def _below_heading(text: str, source: str, hit: Hit) -> list[range]:
    """Return the character ranges of the sections below the heading of a hit; without a heading, the whole text."""
    heading, title = (str(hit.payload.get(name) or "") for name in ("heading", "title"))
    below: list[tuple[str, range]] = []
    for cut in _CUTS.get(markup_of(Document(source, "", payload=hit.payload)), ()):
        sections = _sections(text, title, cut)
        if found := [each for whole, each in sections if whole == heading]:
            return found
        below += sections
    ends = [each for whole, each in below if heading and whole.endswith(f" > {heading}")]  # the path may be too long
    return list(dict.fromkeys(ends)) or [range(len(text))]


@lru_cache(maxsize=8)
def _sections(text: str, title: str, cut: _Cut) -> list[tuple[str, range]]:
    """Return the sections into which ``cut`` divides a text: headings joined by " > ", and the range of characters."""
    starts = [0, *(each.end() for each in re.finditer("\n", text)), len(text) + 1]
    sections = cut(text, [title] if title else [])
    return [(" > ".join(path), range(starts[first], starts[end])) for path, first, end in sections]


def _read(path: Path, encoding: str) -> str | None:
    """Return the text of a file, or None if the file is too large or cannot be read.

    ``encoding`` is the value of this key in the document's payload: a guess of the ingest, or from front matter.
    """
    try:
        if path.stat().st_size > _LARGEST:
            return None
        data = path.read_bytes()
    except OSError:
        return None
    text = None
    for version in _GUESSES:  # an older version may have guessed differently
        with suppress(DocumentError):
            text, guess = decode(data, version=version)
            if guess in ("", encoding):
                break
    return None if text is None else with_line_feeds(text)
