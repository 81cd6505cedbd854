"""A .jsonl file of pairs: rows with ``anchor`` and ``positive``, read on demand; memory holds their offsets."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twinvec.errors import InputError
from twinvec.support.checks import shortened
from twinvec.support.lines import is_table_file, limited_lines, open_data, parse_object
from twinvec.text import check_text

_EXPECTED = "mining reads one JSON object a line, with 'anchor' and 'positive' (.jsonl)"


class PairFile:
    """The pairs of a .jsonl file, read on demand. An InputError names the file, the row and the field."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offsets = array("q", (offset for offset, _ in numbered_rows(path)))
        if not self._offsets:
            raise InputError(f"{path}: has no pairs; {_EXPECTED}")

    def __len__(self) -> int:
        return len(self._offsets)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return ((row["anchor"], row["positive"]) for row in self.rows())

    def __getitem__(self, index: int) -> tuple[str, str]:
        with self.path.open("rb") as file:
            file.seek(self._offsets[index])
            row = parse_row(file.readline(), f"{self.path}, pair {index + 1}")
        return row["anchor"], row["positive"]

    def rows(self, start: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the rows with all of their fields, from row ``start`` on, counted from 0."""
        if start < len(self):
            yield from (row for _, row in numbered_rows(self.path, self._offsets[start]))


def numbered_rows(path: Path, offset: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (offset, row) for each row of a file of pairs, from ``offset`` on.

    Raise InputError if the file is a table, or a row is not a pair.
    """
    if is_table_file(path):
        raise InputError(f"{path}: is a table; {_EXPECTED}")
    with open_data(path) as file:
        file.seek(offset)
        for number, line in enumerate(limited_lines(file, path), start=1):
            if line.strip():
                yield offset, parse_row(line, f"{path}, row {number}")
            offset += len(line)


def parse_row(line: bytes, where: str) -> dict[str, Any]:
    """Return a line of JSON as a row; raise InputError unless it is an object with the texts of a pair."""
    try:
        row = parse_object(line, where)
    except InputError as error:
        raise InputError(f"{error}; {_EXPECTED}") from error
    for field in ("anchor", "positive"):
        if field not in row:
            keys = ", ".join(map(repr, sorted(row)))
            raise InputError(f"{where}: no {field!r} among the keys {shortened(keys)}; {_EXPECTED}")
        check_pair_text(row[field], f"{where}, field {field!r}")
    return row


def check_pair_text(value: object, where: str) -> None:
    """Raise InputError unless a value is a text, not blank, that ``check_text`` accepts."""
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: expected a text, got {repr(value)[:40]}")
    check_text(value, where)
