"""Rows of the files that ``row_files`` opens, all checked on opening; memory holds 8 bytes for each text.

A row is a dict of texts by role (``columns``); ``negatives`` is a list, ``label`` an int and ``score`` a float in 0..1.
Row numbers in errors count from 1, without the header line and blank lines.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError, DocumentError, TextError
from twinvec.support.checks import check_choice
from twinvec.text import check_text
from twinvec.training.data.columns import ROLES
from twinvec.training.data.row_files import dates_as_texts, open_table, unreadable
from twinvec.training.data.text_hash import text_hash
from twinvec.training.settings import Role, Source

_AT_ONCE = 1000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """The checked rows of one file.

    ``hashes``, (n, texts) int64, leaves negatives out; ``labels`` names the classes for softmax by their numbers.
    """

    name: str
    path: Path
    hashes: npt.NDArray[np.int64]
    labels: tuple[str, ...]
    _table: Any
    _reader: _Reader

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def roles(self) -> tuple[Role, ...]:
        """The roles that the rows have."""
        return self._reader.roles

    def rows(self, indices: Sequence[int]) -> list[Row]:
        """Return the rows at ``indices``."""
        columns = self._table[list(indices)]
        numbers = {label: number for number, label in enumerate(self.labels)}
        rows = []
        for place, index in enumerate(indices):
            row = self._reader.row({name: values[place] for name, values in columns.items()}, index)
            if numbers:
                row["label"] = numbers[row["label"]]
            rows.append(row)
        return rows


def open_rows(source: Source, objective: str, cache: Path, labels: tuple[str, ...] | None = None) -> Rows:
    """Open a dataset, memory-mapped from a copy in ``cache``, and check all of its rows.

    ``labels`` are the classes for softmax; default: those of the file. Raises ConfigurationError for an unknown format
    or a missing column, DocumentError, which names file, row and field, for a file or a row that is unusable.
    """
    table = open_table(source.path, cache)
    reader = _Reader(source, objective, table.column_names)
    if source.limit is not None:
        table = table.select(range(min(source.limit, len(table))))
    table = table.select_columns(reader.used)
    if source.path.suffix == ".jsonl":
        table = dates_as_texts(table, source.path, cache)
    texts = ROLES[objective].texts
    hashes = array("q")
    names: set[str] = set()
    for number, row in enumerate(_all_rows(table, reader), 1):
        hashes.extend(text_hash(row[role]) for role in texts)
        if objective == "softmax":
            names.add(row["label"])
            if labels is not None:
                check_choice(row["label"], labels, f"{source.path}, row {number}: label", DocumentError)
    if not hashes:
        raise DocumentError(f"{source.path}: has no rows")
    return Rows(
        source.name or source.path.stem,
        source.path,
        np.frombuffer(hashes, dtype=np.int64).reshape(-1, len(texts)),
        (labels or tuple(sorted(names))) if objective == "softmax" else (),
        table,
        reader,
    )


class _Reader:
    """Turns a row of the file into a checked row by role."""

    def __init__(self, source: Source, objective: str, columns: Sequence[str]) -> None:
        roles = ROLES[objective]
        self.path = source.path
        self._objective = objective
        self._range = source.score_range
        self._targets = roles.scores
        self._columns: dict[Role, list[str]] = {}
        for role in (*roles.needed, *roles.optional):
            named = source.columns.get(role)
            wanted = [named] if isinstance(named, str) else named or [role]
            missing = [column for column in wanted if column not in columns]
            if missing and (named or role in roles.needed):
                raise ConfigurationError(
                    f"{source.path}: has no column {missing[0]!r} for {role!r}; its columns are {', '.join(columns)} "
                    "(columns: {role: column} in the configuration maps them)"
                )
            if len(wanted) > 1 and role != "negatives":
                raise ConfigurationError(f"{source.path}: {role!r} takes one column, got {', '.join(wanted)}")
            if not missing:
                self._columns[role] = wanted
        self.roles = tuple(self._columns)
        self.used = list(dict.fromkeys(column for wanted in self._columns.values() for column in wanted))

    def row(self, values: dict[str, Any], index: int) -> Row:
        """Return row ``index`` of the file, given by column, by role."""
        row: Row = {}
        for role, columns in self._columns.items():
            where = f"{self.path}, row {index + 1}, field {columns[0]!r}"
            if role == "negatives":
                row[role] = self._negatives([values[column] for column in columns], where)
            elif role == "score":
                row[role] = self._score(values[columns[0]], where)
            elif role == "label":
                row[role] = self._label(values[columns[0]], where)
            else:
                row[role] = _text(values[columns[0]], where)
        return row

    def _negatives(self, values: list[Any], where: str) -> list[str]:
        texts: list[Any] = []
        for value in values:
            texts.extend(value if isinstance(value, list) else [value])
        return [_text(text, where) for text in texts if text is not None and text != ""]

    def _score(self, value: Any, where: str) -> float:
        score = _number(value)
        if score is None:
            raise DocumentError(f"{where}: expected a number, got {value!r}")
        low, high = self._range or self._targets
        if not low <= score <= high:
            said = "score_range" if self._range else "score_range is null"
            raise DocumentError(f"{where}: expected a number from {low:g} to {high:g} ({said}), got {value!r}")
        return (score - low) / (high - low) if self._range else score

    def _label(self, value: Any, where: str) -> int | str:
        if self._objective == "softmax":
            return _text(str(value) if isinstance(value, int) else value, where)
        number = _number(value)
        if number not in (0, 1):
            raise DocumentError(f"{where}: expected 0 or 1, got {value!r}")
        return int(number)


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        got = "nothing" if value is None or value == "" else repr(value)[:40]
        raise DocumentError(f"{where}: expected a text, got {got}")
    try:
        return check_text(value, where)
    except TextError as error:
        raise DocumentError(str(error)) from None


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _all_rows(table: Any, reader: _Reader) -> Iterator[Row]:
    for start in range(0, len(table), _AT_ONCE):
        try:
            columns = table[start : start + _AT_ONCE]
        except UnicodeDecodeError as error:  # the library decodes only when rows are read
            raise unreadable(reader.path, error) from error
        for place in range(len(columns[reader.used[0]])):
            yield reader.row({name: values[place] for name, values in columns.items()}, start + place)
