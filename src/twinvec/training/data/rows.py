"""Rows of training files, all checked on opening. The files stay on disk; memory holds 8 bytes for each text and row.

A row is a dict from role (``settings.Role``) to text; ``negatives`` is a list, ``label`` an int, ``score`` a float,
``scores`` a list of floats: of the positive, then of each negative.
Row numbers in errors count from 1, without the header line and blank lines.
"""

from __future__ import annotations

import logging
import math
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from twinvec.errors import ConfigurationError, DocumentError, TextError
from twinvec.support.progress import Advance, progress_bar
from twinvec.text import check_text
from twinvec.training.data.row_files import open_table, unreadable
from twinvec.training.data.text_hash import text_hash
from twinvec.training.settings import ROLES, Role, Source

logger = logging.getLogger(__name__)

_AT_ONCE = 1000
_SHOWN = 10
_NEGATIVES = re.compile(r"(hard[ _-]?)?neg(ative)?s?[ _-]?\d*", re.IGNORECASE)
"""Names of columns of hard negatives in files of other tools, such as ``negative_1`` (sentence-transformers)."""

_SEVERAL = ("negatives", "scores")
"""Roles that may have several columns."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rows:
    """The checked rows of one file.

    Attributes:
        hashes: Hashes of the texts of each row, without its negatives: (n, texts), int64.
        negatives: Number of negatives of each row: (n,).
        negative_hashes: For "binary", hashes of all negatives: (negatives,), int64.
        labels: For softmax, the names of the classes, in their order.
        classes: For softmax, class -> number of rows in this file.
        largest_margin: For margin_mse, the largest difference between the score of a positive and that of its negative.
    """

    name: str
    path: Path
    hashes: npt.NDArray[np.int64]
    negatives: npt.NDArray[np.int64]
    negative_hashes: npt.NDArray[np.int64]
    labels: tuple[str, ...]
    classes: dict[str, int]
    largest_margin: float
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
        rows = list(self._reader.rows(self._table, list(indices)))
        if self.labels:
            for row in rows:
                row["label"] = self.labels.index(row["label"])
        return rows


class PairRows:
    """Pairs for a cross-encoder.

    A row of "binary" becomes a pair with label 1, and for each negative a pair with label 0. A row of "graded" becomes
    a pair with its score. A negative is left out if its text is a positive of the anchor in any row.
    """

    def __init__(self, rows: Rows) -> None:
        self.name = rows.name
        self._rows = rows
        self._ends = (rows.negatives + 1).cumsum()
        places = np.arange(self._ends[-1])
        if "anchor" in rows.roles:
            negatives = np.delete(places, self._ends - rows.negatives - 1)
            places = np.delete(places, negatives[_known_positives(rows)])
        self._kept = places
        if "anchor" in rows.roles and len(self) == len(rows):
            raise DocumentError(
                f"{rows.path}: has no negatives, and positives alone teach nothing; 'twinvec mine' finds negatives"
            )

    def __len__(self) -> int:
        return len(self._kept)

    def rows(self, indices: Sequence[int]) -> list[Row]:
        """Return the pairs at ``indices``, with ``sentence1``, ``sentence2`` and ``label``, from 0 to 1."""
        places = self._kept[np.asarray(indices, dtype=np.int64)]
        owners = np.searchsorted(self._ends, places, side="right")
        parts = places - np.concatenate([[0], self._ends])[owners]
        rows = self._rows.rows(owners.tolist())
        return [_pair(row, part) for row, part in zip(rows, parts.tolist(), strict=True)]


def _known_positives(rows: Rows) -> npt.NDArray[np.bool_]:
    """Return a mask, (negatives,): True if the text of a negative is a positive of its anchor in any row."""
    distinct, numbers = np.unique(np.concatenate([rows.hashes.ravel(), rows.negative_hashes]), return_inverse=True)
    anchors, positives = numbers[: rows.hashes.size].reshape(-1, 2).T
    owners = np.repeat(anchors, rows.negatives)
    negatives = numbers[rows.hashes.size :]
    return np.isin(owners * len(distinct) + negatives, anchors * len(distinct) + positives)


def _pair(row: Row, part: int) -> Row:
    if "anchor" not in row:
        return {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": row["score"]}
    text = row["positive"] if part == 0 else row["negatives"][part - 1]
    return {"sentence1": row["anchor"], "sentence2": text, "label": float(part == 0)}


def open_rows(source: Source, objective: str, cache: Path, *, progress: bool = False) -> Rows:
    """Open a dataset, memory-mapped from a copy in ``cache``, and check all of its rows.

    ``progress`` shows how many rows are checked.

    Raises ConfigurationError if the format is unknown, a column is missing or hard negatives have another name, and
    DocumentError, which names file, row and field, if the file or a row is unusable.
    """
    table = open_table(source.path, cache)
    reader = _Reader(source, objective, table.column_names)
    if source.limit is not None:
        table = table.select(range(min(source.limit, len(table))))
    table = table.select_columns(reader.used)
    _warn_of_class_names(table.features, source.path, objective)
    texts = [role for role in ROLES[objective].needed if role not in ("negatives", "label", "score", "scores")]
    hashes, negatives, negative_hashes = array("q"), array("q"), array("q")
    classes: Counter[str] = Counter()
    margin = 0.0
    own: dict[Role, list[int]] = {"anchor": [], "positive": []}
    with progress_bar("Reading", len(table), "rows", shown=progress) as advance:
        for number, row in enumerate(reader.all_rows(table, advance), start=1):
            hashed = {role: text_hash(row[role]) for role in texts}
            others = [text_hash(text) for text in row.get("negatives", ())]
            hashes.extend(hashed.values())
            negatives.append(len(others))
            if objective == "binary":
                negative_hashes.extend(others)
            if objective == "softmax":
                classes[row["label"]] += 1
            margin = max([margin, *(abs(row["scores"][0] - score) for score in row.get("scores", ()))])
            for role in own.keys() & hashed.keys():
                if hashed[role] in (hashed.get("negative"), *others):
                    own[role].append(number)
    if not hashes:
        raise DocumentError(f"{source.path}: has no rows")
    _warn_of_own_negatives(own, source.path)
    return Rows(
        name=source.name or source.path.stem,
        path=source.path,
        hashes=np.frombuffer(hashes, dtype=np.int64).reshape(-1, len(texts)),
        negatives=np.frombuffer(negatives, dtype=np.int64),
        negative_hashes=np.frombuffer(negative_hashes, dtype=np.int64),
        labels=tuple(sorted(classes)),
        classes=dict(sorted(classes.items())),
        largest_margin=margin,
        _table=table,
        _reader=reader,
    )


def _warn_of_class_names(features: Mapping[str, Any], path: Path, objective: str) -> None:
    """Warn if softmax learns numbers for which the file has names (a ``ClassLabel`` of ``datasets``)."""
    for column, feature in features.items() if objective == "softmax" else ():
        if names := getattr(feature, "names", None):
            logger.warning(
                "%s: the file has names for the numbers in %r, but softmax learns the numbers: %s. To learn the names, "
                "write them to a column of texts",
                path,
                column,
                ", ".join(f"{number} is {name!r}" for number, name in enumerate(names[:_SHOWN])),
            )


def _warn_of_own_negatives(rows: Mapping[Role, Sequence[int]], path: Path) -> None:
    """Warn of rows whose anchor or positive is also one of their negatives; ``rows`` is role -> numbers of rows."""
    for role, found in rows.items():
        if found:
            logger.warning(
                "%s: rows whose %s is also a negative: %d, the first is row %d. Such a negative teaches nothing, or "
                "something wrong; replace it, or leave it out",
                path,
                role,
                len(found),
                found[0],
            )


class _Reader:
    """Checks rows of a file and maps their columns to roles."""

    def __init__(self, source: Source, objective: str, columns: Sequence[str]) -> None:
        roles = ROLES[objective]
        self._path = source.path
        self._objective = objective
        self._range = source.score_range
        self._targets = roles.scores
        self._columns: dict[Role, list[str]] = {}
        for role in (*roles.needed, *roles.optional):
            named = source.columns.get(role)
            if named == [] and role in roles.optional:
                continue
            wanted = [named] if isinstance(named, str) else named or [role]
            missing = [column for column in wanted if column not in columns]
            if missing and (named or role in roles.needed):
                purpose = f" for {role!r}" if named else ""
                raise ConfigurationError(
                    f"{source.path}: has no column {missing[0]!r}{purpose}; its columns are {', '.join(columns)} "
                    "(columns: {role: column} maps them)"
                )
            if len(wanted) > 1 and role not in _SEVERAL:
                raise ConfigurationError(f"{source.path}: {role!r} takes one column, got {', '.join(wanted)}")
            if not missing:
                self._columns[role] = wanted
            elif role == "negatives":
                _require_no_other_negatives(source, objective, columns)
        self.roles = tuple(self._columns)
        self.used = list(dict.fromkeys(column for wanted in self._columns.values() for column in wanted))

    def all_rows(self, table: Any, advance: Advance) -> Iterator[Row]:
        """Yield all rows of the file's table, and count them by ``advance``."""
        numbers = range(len(table))
        for start in numbers[::_AT_ONCE]:
            part = numbers[start : start + _AT_ONCE]
            yield from self.rows(table, part)
            advance(len(part))

    def rows(self, table: Any, indices: Sequence[int]) -> Iterator[Row]:
        """Yield the rows of the file's table at ``indices``."""
        try:
            columns = table[indices]
        except UnicodeDecodeError as error:  # raised only now, because the library decodes rows when they are read
            raise unreadable(self._path, error) from error
        for place, index in enumerate(indices):
            yield self._row({name: values[place] for name, values in columns.items()}, index)

    def _row(self, values: dict[str, Any], index: int) -> Row:
        row: Row = {}
        for role, columns in self._columns.items():
            where = f"{self._path}, row {index + 1}, field {columns[0]!r}"
            if role == "negatives":
                row[role] = self._negatives([values[column] for column in columns], where)
            elif role == "scores":
                row[role] = self._scores([values[column] for column in columns], len(row["negatives"]), where)
            elif role == "score":
                row[role] = self._score(values[columns[0]], where)
            elif role == "label":
                row[role] = self._label(values[columns[0]], where)
            else:
                row[role] = _text(values[columns[0]], where)
        return row

    def _negatives(self, values: list[Any], where: str) -> list[str]:
        return [_text(text, where) for text in _flat(values)]

    def _scores(self, values: list[Any], negatives: int, where: str) -> list[float]:
        """Return the score of the positive, then that of each negative.

        With one negative, a single number may stand for both scores: the margin of the positive over the negative.
        """
        given = _flat(values)
        scores = [score for score in map(_number, given) if score is not None]
        if len(scores) < len(given):
            wrong = next(value for value in given if _number(value) is None)
            raise DocumentError(f"{where}: expected a number, got {wrong!r}")
        if not negatives:
            raise DocumentError(f"{where}: the row has no negatives; 'twinvec mine' finds some, or leave the row out")
        if len(scores) == negatives == 1:
            return [*scores, 0.0]
        if len(scores) != negatives + 1:
            raise DocumentError(
                f"{where}: expected {negatives + 1} scores, of the positive and of each negative, got {len(scores)}"
            )
        return scores

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
            return _class_name(value, where)
        number = _number(value)
        if number not in (0, 1):
            raise DocumentError(f"{where}: expected 0 or 1, got {value!r}")
        return int(number)


def _require_no_other_negatives(source: Source, objective: str, columns: Sequence[str]) -> None:
    """Raise ConfigurationError if a column of hard negatives is neither called 'negatives' nor mapped to it."""
    mapped = [name for names in source.columns.values() for name in ([names] if isinstance(names, str) else names)]
    others = [column for column in columns if _NEGATIVES.fullmatch(column) and column not in mapped]
    if not others:
        return
    shown, them = (others[0], "it") if len(others) == 1 else (f"[{', '.join(others)}]", "them")
    raise ConfigurationError(
        f"{source.path}: {objective} reads hard negatives from a column 'negatives', but the file has "
        f"{', '.join(map(repr, others))}; 'columns: {{negatives: {shown}}}' uses {them}, "
        f"'columns: {{negatives: []}}' leaves {them} out"
    )


def _flat(values: list[Any]) -> list[Any]:
    """Return the values of all columns and lists, without empty ones."""
    found = [each for value in values for each in (value if isinstance(value, list) else [value])]
    return [each for each in found if each is not None and each != ""]


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        got = "nothing" if value is None or value == "" else repr(value)[:40]
        raise DocumentError(f"{where}: expected a text, got {got}")
    try:
        return check_text(value, where)
    except TextError as error:
        raise DocumentError(str(error)) from None


def _class_name(value: Any, where: str) -> str:
    if isinstance(value, float):
        if not value.is_integer():
            raise DocumentError(f"{where}: expected a text or a whole number, got {value!r}")
        value = int(value)
    return _text(str(value) if isinstance(value, int) else value, where)


def _number(value: Any) -> float | None:
    if isinstance(value, str) and "_" in value:  # ``float`` would accept 1_000
        return None
    try:
        number = float(value)
    except (OverflowError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
