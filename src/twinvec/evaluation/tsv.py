"""Readers of evaluation files: TSV with a header line and without quoting, and lists of texts.

Errors name file and line.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twinvec.errors import InputError
from twinvec.support.checks import string
from twinvec.support.lines import is_jsonl, long_fields, read_lines, read_texts
from twinvec.text import check_text, check_texts


@long_fields()
def read_table(path: Path, columns: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return ("file:line", texts of ``columns``) for each row of a TSV file.

    The first line names the columns, in any order; other columns and blank lines are skipped. A double quote is a
    character like any other. Raises InputError if the file cannot be read, is empty, lacks a column or rows, or if a
    row is malformed.
    """
    if path.suffix.lower() == ".parquet":
        raise InputError(f"{path}: is a Parquet file; expected a .tsv file with the columns {', '.join(columns)}")
    rows: list[tuple[str, tuple[str, ...]]] = []
    reader = csv.reader(read_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    filled = filter(None, reader)
    try:
        header = next(filled, None)
        if header is None:
            raise InputError(f"{path}: the file is empty; expected a header line with {', '.join(columns)}")
        for column in columns:
            if column not in header:
                among = ", ".join(map(repr, header))
                raise InputError(
                    f"{path}:{reader.line_num}: no column {column!r} among {among}; the first line names the columns: "
                    f"{', '.join(columns)}, separated by tabs"
                )
        for fields in filled:
            place = f"{path}:{reader.line_num}"
            if len(fields) != len(header):
                raise InputError(f"{place}: {len(fields)} fields, expected {len(header)}: {', '.join(header)}")
            rows.append((place, tuple(check_text(fields[header.index(column)], place) for column in columns)))
    except csv.Error as error:
        raise InputError(f"{path}:{reader.line_num}: {error}") from error
    if not rows:
        raise InputError(f"{path}: no rows below the header")
    return rows


def read_columns(
    paths: Sequence[Path], columns: Sequence[str], parse: Callable[[str, str], Any]
) -> tuple[list[Any], list[str], list[str]]:
    """Return three ``columns`` of TSV files as lists; ``parse(text, place)`` converts the first one."""
    rows = [
        (parse(first, place), second, third)
        for path in paths
        for place, (first, second, third) in read_table(path, columns)
    ]
    first, second, third = map(list, zip(*rows, strict=True))
    return first, second, third


def check_columns(data: Any, columns: Sequence[str], others: Mapping[str, int] | None = None) -> None:
    """Check the columns of a frozen set, and store its columns of texts as lists.

    ``columns`` names the columns of texts; ``others`` has the lengths of the other columns. Raise InputError for a
    column that is not a list of texts, for columns of different lengths, and for a set without rows.
    """
    sizes = dict(others or {})
    for column in columns:
        place = f"{string(data.name, 'name')}: {column}"
        object.__setattr__(data, column, check_texts(getattr(data, column), name=place, argument=place))
        sizes[column] = len(getattr(data, column))
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{size} in {column}" for column, size in sizes.items())
        raise InputError(
            f"{data.name}: the columns differ in their numbers of rows: {found}; give columns of equal length"
        )
    if not all(sizes.values()):
        raise InputError(f"{data.name}: no rows")


def read_nonblank_texts(path: Path) -> list[str]:
    """Return the non-blank lines of a text file, or each ``text`` of a .jsonl file; raise InputError if it has none."""
    texts = [text for text in read_texts(path) if text.strip() or is_jsonl(path)]
    if not texts:
        raise InputError(f"{path}: the file is empty; expected one text a line")
    return texts


def parse_number(text: str, place: str, name: str = "score") -> float:
    """Return the finite number that ``text`` holds; raise InputError if it holds anything else."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:  # ``float`` would accept 1_000
        raise InputError(f"{place}: {name} {text!r} is not a number")
    return value


def parse_integer(text: str, place: str) -> int:
    """Return the integer that ``text`` holds; raise InputError if it holds anything else, or more than nine digits."""
    if re.fullmatch(r"\s*[+-]?[0-9]{1,9}\s*", text) is None:
        raise InputError(f"{place}: score {text!r} is not a whole number of at most nine digits")
    return int(text)


def data_name(path: Path) -> str:
    """Return the name of data in results: ``stsb/test`` for ``.../stsb/test.tsv``, ``scifact`` for a folder."""
    path = path.resolve()
    return path.name if path.is_dir() else f"{path.parent.name}/{path.stem}"
