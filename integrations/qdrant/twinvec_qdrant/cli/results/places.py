"""Places: where the documents of hits are, as far as this machine can tell: files, and lines in them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from twinvec.errors import DocumentError
from twinvec.retrieval.base import Hit
from twinvec.retrieval.windows import body_start
from twinvec_qdrant.ingest.reading.decoding import decode
from twinvec_qdrant.stored_roots import StoredRoot, owner

_LARGEST = 8 * 1024 * 1024  # bytes of a file in which lines are looked for


class Places:
    """The files of a collection's documents, from its roots; errors are no errors here, only unknown places."""

    def __init__(self, roots: Iterable[StoredRoot]) -> None:
        self._roots = {root.name: root for root in roots}
        self.text = cache(_read)

    def described(self, source: str) -> str:
        """Return what the source of a document holds, in the user's words, or ""."""
        root = owner(self._roots, source)
        return root.description(source) if root else ""

    def file(self, source: str) -> Path | None:
        """Return the file that is the document; None for a record of a file, and for what is not on this machine."""
        root = owner(self._roots, source)
        if root is None or root.location is None or not root.is_local():
            return None
        location, name = Path(root.location), source.removeprefix(root.prefix)
        try:
            path = location / name if location.is_dir() else location
            return path if path.is_file() and (path != location or name == location.name) else None
        except (OSError, ValueError):  # an id may be no path at all
            return None

    def lines(self, source: str, hit: Hit, start: int, end: int) -> tuple[int, int] | None:
        """Return the first and the last line of ``hit.text[start:end]`` in its file, from 1; None if not found."""
        path = self.file(source)
        text = None if path is None else self.text(path)
        if text is None or start == end:
            return None
        body = body_start(hit)
        found = text.find(hit.text[body:])
        found = text.find(hit.text[start:end]) if found < 0 else found + start - body
        if found < 0:
            return None
        first = text.count("\n", 0, found) + 1
        return first, first + text.count("\n", found, found + end - start)


def _read(path: Path) -> str | None:
    """Return the text of a file, with lines that end in \\n as in chunks; None for a file that is no text."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        text, _ = decode(path.read_bytes())
    except (OSError, DocumentError):
        return None
    return text.replace("\r\n", "\n").replace("\r", "\n")
