"""Reads the documents of a request from JSON lines while the lines arrive.

The commands of twinvec read files themselves, and send what they have read (``form=read``): each line is a document
with its pages, or the failure of a file, as ``twinvec_qdrant.written_line`` writes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from anyio import to_thread

from twinvec.errors import DocumentError, InputError, TwinvecError
from twinvec.retrieval.documents import as_document, parse_record
from twinvec_qdrant import Empty, Failure, read_line
from twinvec_serve.json_texts import SMALL_BYTES, decoder_for


async def ndjson_pages(
    stream: AsyncIterator[bytes], most_bytes: int, read: Callable[[dict[str, Any], int], Any]
) -> AsyncIterator[list[Any]]:
    """Yield the documents of JSON lines: one list for each piece of the body that ends a line.

    A line that is not a JSON object, or is longer than ``most_bytes``, becomes a Failure; all other lines are ingested.
    """
    lines = _Lines(most_bytes)
    async for piece in stream:
        if ended := lines.of(piece):
            yield await _page(ended, most_bytes, read)
    if ended := lines.last():
        yield await _page(ended, most_bytes, read)


def plain_line(value: dict[str, Any], number: int) -> Any:
    """Return the document of a line as ``plain`` does; raise DocumentError with the line's number if it has no id."""
    if not (value.get("id") or value.get("_id")):
        as_document(value, number)
    return plain(value)


def plain(value: dict[str, Any]) -> Any:
    """Return a document unchanged, or ``Empty`` if it has no text, as ``twinvec ingest`` does."""
    texts = (value.get("text"), value.get("title") or "")
    if all(isinstance(each, str) and not each.strip() for each in texts):
        with suppress(InputError):  # the ingest refuses the document, and counts a failure
            return Empty(as_document(value, 0).id, "holds no text")
    return value


def read_by_command(value: dict[str, Any], _number: int) -> Any:
    """Return the document or failure of a line; return the first line, which describes the source, unchanged."""
    return value if "root" in value else read_line(value)


async def _page(
    lines: list[tuple[int, bytes | None]], most_bytes: int, read: Callable[[dict[str, Any], int], Any]
) -> list[Any]:
    """Return the documents of lines; long lines are parsed in a thread."""

    def documents() -> list[Any]:
        return [_document(number, line, most_bytes, read) for number, line in lines]

    if sum(len(line or b"") for _, line in lines) <= 2 * SMALL_BYTES:
        return documents()
    return await to_thread.run_sync(documents)


class _Lines:
    """Splits the pieces of a body into lines with their numbers; a line that is too long becomes None."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._begun: list[bytes] = []
        self._size = 0
        self._number = 0

    def of(self, piece: bytes) -> list[tuple[int, bytes | None]]:
        """Return the lines that end in this piece."""
        *ended, rest = piece.split(b"\n")
        found = []
        for each in ended:
            self._add(each)
            found += self.last()
        self._add(rest)
        return found

    def last(self) -> list[tuple[int, bytes | None]]:
        """End the current line and return it with its number; return nothing if the line is blank."""
        self._number += 1
        line = b"".join(self._begun) if self._size <= self._most_bytes else None
        self._begun, self._size = [], 0
        return [] if line is not None and not line.strip() else [(self._number, line)]

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._most_bytes:
            self._begun.append(part)
        else:
            self._begun.clear()


def _document(number: int, line: bytes | None, most_bytes: int, read: Callable[[dict[str, Any], int], Any]) -> Any:
    try:
        if line is None:
            raise DocumentError(f"the line is longer than {most_bytes:,} bytes, the limit that --max-body-mb sets")
        return read(parse_record(line, decoder_for(line)), number)
    except TwinvecError as error:
        return Failure(f"line {number}", str(error).removeprefix(f"document {number}: "), hides=True)
