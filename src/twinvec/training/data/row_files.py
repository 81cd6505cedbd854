"""Opens .jsonl, .csv, .tsv (no quoting) and .parquet files as memory-mapped tables of the library ``datasets``.

The library alone would guess types and repair rows. This module refuses ragged rows, keeps dates and words such as "NA"
as texts, and allows values of different types in a column of a .jsonl file.
"""

from __future__ import annotations

import csv
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Literal

from twinvec.errors import ConfigurationError, DocumentError, InputError
from twinvec.interrupts import raise_of_handler
from twinvec.support.atomic import put_in_place
from twinvec.support.extras import import_extra
from twinvec.support.lines import limited_lines, long_fields, parse_object

FORMATS = (".jsonl", ".csv", ".tsv", ".parquet")
_AT_ONCE = 1000
_DIALECTS: dict[str, tuple[str, Literal[0, 3]]] = {".csv": (",", csv.QUOTE_MINIMAL), ".tsv": ("\t", csv.QUOTE_NONE)}
"""Suffix -> separator and quoting."""
_NOT_UTF8 = re.compile(r"[\udc80-\udcff]+")  # "surrogateescape" puts these characters in place of invalid bytes


def open_table(path: Path, cache: Path) -> Any:
    """Open the rows of a file, unchanged, memory-mapped from a copy in the folder ``cache``.

    Raises ConfigurationError if the format is unknown, DocumentError if the file is unreadable, empty or ragged.
    """
    datasets = import_extra("datasets", "train", "training")
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ConfigurationError(f"{path}: unknown format; expected a file ending in {', '.join(FORMATS)}")
    if path.stat().st_size == 0:
        raise DocumentError(f"{path}: is empty")
    options = {"cache_dir": str(cache), "keep_in_memory": False}
    try:
        with _quiet(datasets):
            match suffix:
                case ".jsonl":
                    return _json_lines(path, cache)
                case ".csv" | ".tsv":
                    return datasets.Dataset.from_csv(str(path), **_as_text(path, *_DIALECTS[suffix]), **options)
                case _:
                    from pyarrow import parquet

                    if not parquet.read_metadata(path).num_rows:
                        raise DocumentError(f"{path}: has no rows")
                    return datasets.Dataset.from_parquet(str(path), **options)
    except DocumentError:
        raise
    except Exception as error:  # the library passes on errors of arrow, pandas and the decoder
        raise_of_handler(error)
        raise unreadable(path, error) from error


@contextmanager
def _quiet(datasets: Any) -> Iterator[None]:
    """Silence the library's progress bars, and its log, which repeats the errors that it raises."""
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
    """Return options that make the library read all fields as texts; raise DocumentError if a row is malformed."""
    import datasets

    with long_fields(), path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        rows = _fields(file, path, separator, quoting)
        # a column without a name has row numbers that pandas wrote, or is the empty end of a spreadsheet
        names = [name or f"(column {number})" for number, name in enumerate(next(rows, []), 1)]
        if len(names) == 1 and re.search(r"[,;\t|]", names[0]):
            raise DocumentError(
                f"{path}: the header has one field, {names[0]!r}; separate the fields of a .csv file by commas, and "
                "those of a .tsv file by tabs"
            )
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DocumentError(f"{path}: two columns are called {twice!r}; rename one of them")
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


def _fields(file: IO[str], path: Path, separator: str, quoting: Literal[0, 3]) -> Iterator[list[str]]:
    """Yield the fields of the header and of each row; raise DocumentError for a field that is not UTF-8."""
    number = 0
    for fields in csv.reader(file, delimiter=separator, quoting=quoting):
        if len(fields) < 2 and not "".join(fields).strip(" \t"):
            continue  # pandas skips these lines too
        for field in fields:
            if not field.isascii() and (found := _NOT_UTF8.search(field)):
                place = f"row {number}" if number else "the header"
                raw = found[0].encode(errors="surrogateescape")
                raise DocumentError(f"{path}, {place}: has bytes that are not UTF-8 ({raw!r}); save the file as UTF-8")
        yield fields
        number += 1


def _json_lines(path: Path, cache: Path) -> Any:
    """Open a .jsonl file. Its copy holds each value as JSON, because the values of a column may differ in type."""
    import datasets

    names = list(dict.fromkeys(name for row in _objects(path) for name in row))
    stat = path.stat()
    identity = hashlib.sha256(repr((path, stat.st_size, stat.st_mtime_ns)).encode()).hexdigest()
    copy = cache / f"{identity[:32]}.arrow"
    if not copy.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        file = NamedTemporaryFile(dir=cache, delete=False)  # noqa: SIM115  # each process of a run writes its own
        try:
            with file:
                _write_json(_objects(path), names, file)
        except BaseException:
            os.unlink(file.name)
            raise
        put_in_place(Path(file.name), copy)
    return datasets.Dataset.from_file(str(copy)).with_transform(_from_json)


def _write_json(rows: Iterator[dict[str, Any]], names: list[str], file: IO[bytes]) -> None:
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.large_binary()) for name in names])
    with pyarrow.ipc.new_stream(file, schema) as writer:
        while part := list(islice(rows, _AT_ONCE)):
            columns = [[_as_json(row.get(name)) for row in part] for name in names]
            writer.write_batch(pyarrow.record_batch(columns, schema=schema))


def _as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="surrogatepass")


def _from_json(columns: dict[str, list[bytes]]) -> dict[str, list[Any]]:
    return {name: [json.loads(value) for value in values] for name, values in columns.items()}


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a .jsonl file; raise DocumentError if it has none, or if a row is not a JSON object."""
    number = 0
    with path.open("rb") as file:
        for number, line in enumerate(filter(bytes.strip, limited_lines(file, path)), start=1):
            place = f"{path}, row {number}"
            try:
                row = parse_object(line.strip().decode("utf-8-sig"), place)
            except UnicodeDecodeError as error:
                reason = f"not UTF-8: {error.reason} at byte {error.start} of the row; save the file as UTF-8"
                raise DocumentError(f"{place}: {reason}") from error
            except InputError as error:
                raise DocumentError(str(error)) from error
            yield row
    if not number:
        raise DocumentError(f"{path}: is empty")


def unreadable(path: Path, error: Exception) -> DocumentError:
    """Return the error for a file that the library cannot read."""
    reason = (str(error.__cause__ or error) or type(error).__name__).splitlines()[0]
    return DocumentError(f"{path}: cannot be read: {reason}")
