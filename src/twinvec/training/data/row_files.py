"""Files of rows -> tables of ``datasets``, memory-mapped: .jsonl, .csv, .tsv (no quoting) and .parquet.

The library guesses and repairs. This module refuses ragged rows, and keeps words such as "NA" and dates as texts.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from twinvec.errors import ConfigurationError, DocumentError, InputError
from twinvec.support.extras import import_extra
from twinvec.support.lines import long_fields, parse_object
from twinvec.text import check_text

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")


def open_table(path: Path, cache: Path) -> Any:
    """Open the rows of a file, unchanged, memory-mapped from a copy in the folder ``cache``.

    Raises ConfigurationError if the format is unknown, DocumentError if the file is unreadable, empty or ragged.
    """
    datasets = import_extra("datasets", "train", "training")
    if path.suffix not in FORMATS:
        raise ConfigurationError(f"{path}: unknown format; expected a file ending in {', '.join(FORMATS)}")
    if path.stat().st_size == 0:
        raise DocumentError(f"{path}: is empty")
    options = {"cache_dir": str(cache), "keep_in_memory": False}
    try:
        with _quiet(datasets):
            match path.suffix:
                case ".jsonl":
                    return datasets.Dataset.from_json(str(path), **options)
                case ".csv":
                    return datasets.Dataset.from_csv(str(path), **_as_text(path, ",", csv.QUOTE_MINIMAL), **options)
                case ".tsv":
                    return datasets.Dataset.from_csv(str(path), **_as_text(path, "\t", csv.QUOTE_NONE), **options)
                case _:
                    return datasets.Dataset.from_parquet(str(path), **options)
    except DocumentError:
        raise
    except Exception as error:  # the library passes on errors of arrow, pandas and the decoder
        raise unreadable(path, error) from error


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Show no bars of the library, nor the errors that it logs before it raises them."""
    log = datasets.utils.logging
    bars, verbosity = log.is_progress_bar_enabled(), log.get_verbosity()
    datasets.disable_progress_bars()
    log.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            datasets.enable_progress_bars()


def _as_text(path: Path, separator: str, quoting: Literal[0, 3]) -> dict[str, Any]:
    """Return options by which the reader keeps columns and words as text; raise DocumentError if it cannot."""
    import datasets

    with long_fields(), path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=separator, quoting=quoting)
        rows = (
            fields for fields in lines if len(fields) > 1 or "".join(fields).strip(" \t")
        )  # pandas skips these lines too
        # an unnamed column: row numbers that pandas wrote, or the empty end of a spreadsheet
        names = [name or f"(column {number})" for number, name in enumerate(next(rows, []), 1)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DocumentError(f"{path}: two columns are called {twice!r}")
        number = 0
        for number, fields in enumerate(rows, 1):
            if len(fields) != len(names):
                raise DocumentError(
                    f"{path}, row {number}: has {len(fields)} fields, but the header has {len(names)}: "
                    f"{', '.join(names)}"
                )
        if not number:
            raise DocumentError(f"{path}: has no rows")
    return {
        "sep": separator,
        "names": names,
        "header": 0,
        "quoting": quoting,
        "encoding": "utf-8-sig",
        "keep_default_na": False,
        "na_values": [],
        "features": datasets.Features(dict.fromkeys(names, datasets.Value("string"))),
    }


def dates_as_texts(table: Any, path: Path, cache: Path) -> Any:
    """Return the table with the original texts of its .jsonl file in columns that the library took for dates."""
    import datasets

    def as_text(feature: Any) -> Any:
        if isinstance(feature, datasets.List):
            return datasets.List(as_text(feature.feature))
        return datasets.Value("string") if str(getattr(feature, "dtype", "")).startswith("timestamp") else feature

    features = datasets.Features({name: as_text(feature) for name, feature in table.features.items()})
    if features == table.features:
        return table
    stat = path.stat()
    identity = repr((path, stat.st_size, stat.st_mtime_ns, features, len(table)))
    with _quiet(datasets):
        return datasets.Dataset.from_generator(
            _objects,
            features,
            str(cache),
            gen_kwargs={"path": path, "names": tuple(features), "count": len(table)},
            fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:32],
        )


def _objects(path: Path, names: tuple[str, ...], count: int) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8-sig") as file:
        for line in islice(filter(str.strip, file), count):
            value = json.loads(line)
            yield {name: value.get(name) for name in names}


def unreadable(path: Path, error: Exception) -> DocumentError:
    """Return the error for a file that the library fails on; it names the row if a single line is at fault."""
    if path.suffix == ".jsonl":
        number = 0
        with path.open("rb") as file:
            for number, line in enumerate(filter(bytes.strip, file), start=1):
                place = f"{path}, row {number}"
                try:
                    _check_row(line.strip().decode("utf-8-sig"), place)
                except UnicodeDecodeError as at_fault:
                    return DocumentError(f"{place}: not UTF-8: {at_fault.reason} at byte {at_fault.start} of the row")
                except InputError as at_fault:
                    return DocumentError(str(at_fault))
        if not number:
            return DocumentError(f"{path}: is empty")
    reason = (str(error.__cause__ or error) or type(error).__name__).splitlines()[0]
    return DocumentError(f"{path}: cannot be read: {reason}")


def _check_row(line: str, place: str) -> None:
    for name, value in parse_object(line, place).items():
        for text in (name, *(value if isinstance(value, list) else [value])):
            if isinstance(text, str):
                check_text(text, f"{place}, field {name!a}")
