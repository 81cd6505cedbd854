"""The pairs of a file, and which texts they judge positive for an anchor.

A text is judged where it is the anchor or a positive of it, lies within such a positive (a chunk of it), or holds
one (a document around it). Case, spacing and Unicode form do not count. A short text within another has to stand there
in words of its own: "rain" lies in "rain, later snow" and not in "train".

Memory holds hashes of the pairs and where their rows begin, not their texts.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from twinvec.errors import InputError
from twinvec.retrieval import Hit
from twinvec.text import check_text
from twinvec.training.masks import normalised, text_hash

_LONG = 20  # characters; a text that long is not found in another by chance, in languages without blanks too


class Pairs(Protocol):
    """Pairs (anchor, positive): a list of them, or a ``PairFile``."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All of them, in order."""
        ...

    def __getitem__(self, index: int, /) -> tuple[str, str]:
        """One of them."""
        ...


class PairFile:
    """The pairs of a .jsonl file, read when they are asked for. Blank lines are passed over.

    Raises:
        InputError: the file cannot be read or has no pairs, or a line is none; it names file, row and field.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets = array("q", (offset for offset, _ in numbered_rows(path)))
        if not self._offsets:
            raise InputError(f"{path}: has no pairs")

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self.pairs()

    def __getitem__(self, index: int) -> tuple[str, str]:
        with self.path.open("rb") as file:
            file.seek(self._offsets[index])
            row = parse_row(file.readline(), f"{self.path}, pair {index + 1}")
        return row["anchor"], row["positive"]

    def pairs(self, start: int = 0) -> Iterator[tuple[str, str]]:
        """The pairs from the one numbered ``start`` on, counted from 0."""
        return ((row["anchor"], row["positive"]) for row in self.rows(start))

    def rows(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """The same with all fields of their rows."""
        if start < len(self):
            yield from (row for _, row in numbered_rows(self.path, self._offsets[start]))


class Judged:
    """What pairs judge positive, for each anchor.

    Args:
        pairs: All there are; their texts are looked up again where an anchor is asked for.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._positives: dict[int, dict[int, int]] = {}
        for index, (anchor, positive) in enumerate(pairs):
            self._positives.setdefault(text_hash(anchor), {}).setdefault(text_hash(positive), index)

    def count(self, anchor: str) -> int:
        """How many positives an anchor has."""
        return len(self._positives.get(text_hash(anchor), ()))

    def verdicts(self, anchor: str, hits: Iterable[Sequence[str]]) -> list[bool]:
        """For each hit, by its ``readings``, whether it is judged positive for ``anchor``, or is the anchor."""
        itself = normalised(anchor)
        rows = self._positives.get(text_hash(anchor), {}).values()
        positives = [normalised(self._pairs[row][1]) for row in rows]
        return [
            readings[0] == itself or any(speaks_of(readings, positive) for positive in positives) for readings in hits
        ]


def readings(hit: Hit) -> tuple[str, ...]:
    """The text of a hit, normalised: as it was found and, of a chunk under a heading, without the heading."""
    heading = hit.payload.get("heading")
    body = hit.text.removeprefix(f"{heading}\n\n") if isinstance(heading, str) and heading else hit.text
    return (normalised(hit.text),) if body == hit.text else (normalised(hit.text), normalised(body))


def speaks_of(readings: Sequence[str], positive: str) -> bool:
    """Whether a text, by its ``readings``, is the normalised ``positive``, lies within it, or holds it."""
    return any(_stands_in(positive, reading) or _stands_in(reading, positive) for reading in readings)


def numbered_rows(path: Path, offset: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file of pairs from ``offset`` on, each with the place in the file where it begins.

    Raises:
        InputError: the file cannot be read, or a line is no object with two texts.
    """
    try:
        with path.open("rb") as lines:
            lines.seek(offset)
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield offset, parse_row(line, f"{path}, row {number}")
                offset += len(line)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def parse_row(line: bytes, where: str) -> dict[str, Any]:
    """A line of JSON as a row with ``anchor`` and ``positive``.

    Raises:
        InputError: it is no object with these two texts.
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: no valid JSON: {error}; expected one object a line") from None
    if not isinstance(row, dict):
        raise InputError(f"{where}: expected an object with 'anchor' and 'positive', got {type(row).__name__}")
    for field in ("anchor", "positive"):
        value = row.get(field)
        if not isinstance(value, str) or not value.strip():
            raise InputError(f"{where}, field {field!r}: expected a text, got {repr(value)[:40]}")
        check_text(value, f"{where}, field {field!r}")
    return row


def _stands_in(part: str, whole: str) -> bool:
    if not part or part not in whole:
        return False
    return len(part) >= _LONG or re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole) is not None
