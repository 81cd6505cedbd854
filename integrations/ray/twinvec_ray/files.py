"""Files of texts as Ray datasets, and datasets as files of vectors; paths may be URLs such as ``s3://bucket/texts``."""

from __future__ import annotations

import io
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import Dataset, SaveMode
from ray.data.datasource import FileBasedDatasource
from ray.exceptions import RayError

from twinvec.errors import ConfigurationError, InputError, TwinvecError
from twinvec.installation import install_line
from twinvec.support.atomic import sync_files, sync_folder
from twinvec.support.checks import path_text
from twinvec.support.lines import decoded_lines, parsed_lines
from twinvec.support.locks import exclusive_lock
from twinvec.support.slicing import sliced_by_weight
from twinvec_ray.blocks import raising_causes
from twinvec_ray.cluster import check_dataset

_JSON_LINES = (".jsonl", ".json", ".ndjson")
_FILE_ROWS = 100_000  # least number of rows in a file; the blocks that workers encode are much smaller
_READ_ROWS = 4096  # rows that are read at once from a file of lines
_READ_CHARACTERS = 4 * 1024 * 1024
_URL = re.compile(r"\w+://")
_EXISTS = "already exists"  # Ray's error has no class of its own


def read(source: str | Path) -> Dataset:
    """Return the rows of Parquet (a file or folder), JSON lines, Lance, or a text file (each line is a ``text``).

    Raises:
        ConfigurationError: ``source`` is not a path, its ending is not known, or Lance is not installed.
        InputError: there is no such file, or it cannot be read.
    """
    source = path_text(source, "source")
    suffix = PurePosixPath(source).suffix.lower()
    if not _URL.match(source):
        if not Path(source).exists():
            raise InputError(f"{source}: no such file or folder")
        source = str(Path(source).resolve())
    if suffix not in (*_JSON_LINES, ".txt", ".lance", ".parquet", "") and not Path(source).is_dir():
        raise ConfigurationError(f"{source}: expected .parquet, .jsonl, .txt, .lance, or a folder of Parquet files")
    if suffix == ".lance":
        _need_lance(source)
    try:
        return _rows(source, suffix)
    except (RayError, OSError, ValueError) as error:
        raise InputError(f"{source}: cannot be read: {getattr(error, 'cause', None) or error}") from error


def _rows(source: str, suffix: str) -> Dataset:
    if suffix in (*_JSON_LINES, ".txt"):
        lines: Dataset = ray.data.read_datasource(_Lines(source, json=suffix != ".txt"))
        return lines
    if suffix == ".lance":
        return ray.data.read_lance(source)
    context = ray.data.DataContext.get_current()
    default = getattr(context, "use_datasource_v2", False)  # Ray 2.51 has no such setting
    context.use_datasource_v2 = False  # its actors take 10 s of CPU to start: as much as encoding 500 passages
    try:
        return ray.data.read_parquet(source)
    finally:
        context.use_datasource_v2 = default


class _Lines(FileBasedDatasource):
    """Rows of files with one text or one JSON object a line, which are read as ``twinvec encode`` reads them.

    Ray's own readers split a text also at characters such as U+2028, and take strings that look like dates for dates.
    """

    def __init__(self, source: str, *, json: bool) -> None:
        super().__init__(source)
        self._json = json

    def _read_stream(self, f: Any, path: str) -> Iterator[pa.Table]:
        lines = decoded_lines(io.BufferedReader(f), path)
        rows = parsed_lines(lines, path) if self._json else ((path, {"text": line.rstrip("\r\n")}) for line in lines)
        for part in sliced_by_weight(rows, _characters, most=_READ_ROWS, heaviest=_READ_CHARACTERS):
            names = dict.fromkeys(name for _, row in part for name in row)
            if not names:
                raise InputError(f"{part[0][0]}: the object has no keys")
            yield pa.table({name: _column(name, part) for name in names})


def _characters(row: tuple[str, dict[str, Any]]) -> int:
    return sum(len(value) for value in row[1].values() if isinstance(value, str))


def _column(name: str, rows: Sequence[tuple[str, dict[str, Any]]]) -> pa.Array:
    """Return the values of ``name`` in rows, which come with their places in files, as a column.

    Raise InputError if no column can hold the values.
    """
    try:
        return pa.array([row.get(name) for _, row in rows])
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        reason: Exception = error
    kinds: dict[str, str] = {}  # type of values -> place of the first such value
    for place, row in rows:
        value = row.get(name)
        try:
            pa.array([value])
        except (pa.ArrowException, OverflowError, UnicodeError) as error:
            raise InputError(f"{place}: {name!r}: cannot be stored in a table: {error}") from None
        if value is not None:
            kinds.setdefault(type(value).__name__, place)
    found = ", ".join(f"{kind} ({place})" for kind, place in kinds.items())
    raise InputError(f"{name!r}: a column has values of one type, but the file has {found}: {reason}")


def check_output(output: str) -> None:
    """Raise ``ConfigurationError`` unless vectors can be written to ``output``."""
    if PurePosixPath(output).suffix.lower() not in (".parquet", ".lance"):
        raise ConfigurationError(f"{output}: vectors are written to a folder NAME.parquet or NAME.lance")
    if _is_lance(output):
        _need_lance(output)
    if not _URL.match(output):
        path = Path(output)
        if not path.parent.is_dir():
            raise ConfigurationError(f"{output}: cannot be written: there is no folder {path.parent}")
        if path.is_file():
            raise ConfigurationError(f"{output}: is a file; vectors are written to a folder of several files")
        if path.is_dir() and (others := _others(path, output)):
            raise ConfigurationError(f"{output}: holds {others[0]!r}, which would be lost; choose another folder")


def write(dataset: Dataset, output: str | Path) -> None:
    """Compute the dataset, and write it to a folder. A local folder replaces an older one when it is complete.

    A folder at a URL must not exist yet, and is complete when this function returns.

    Raises:
        ConfigurationError: as for ``check_output``; ``dataset`` is not a Ray dataset, another process is writing to the
            local folder, or the folder at the URL exists.
        InputError: the dataset has no rows.
        TwinvecError: the error of a step of the dataset; an ``EngineError`` quotes an error of another library.
    """
    check_dataset(dataset, "dataset")
    output = path_text(output, "output")
    check_output(output)
    if _URL.match(output):
        _write_new(dataset, output)
        return
    target = Path(output).resolve()
    with _locked(target, output):
        _replace(target, dataset, output)


@contextmanager
def _locked(target: Path, output: str) -> Iterator[None]:
    """Let no other process of this machine write to the folder; raise ``ConfigurationError`` if one is writing."""
    lock = target.with_name(f"{target.name}.lock")
    with ExitStack() as held:
        try:
            held.enter_context(exclusive_lock(lock, f"{output}: another process is writing to it"))
        except OSError as error:
            raise ConfigurationError(f"{output}: cannot be written: {error.strerror or error}") from error
        yield


def _replace(target: Path, dataset: Dataset, output: str) -> None:
    """Write a dataset next to a local folder, and then put it in the folder's place.

    ``older`` is always complete, because it is moved into ``partial`` before its files are removed. In case of a power
    cut, all files are on the disk before the folder gets its name, and the name is on the disk before ``older`` is
    removed. Each run writes to a folder of its own in ``partial``, because a task of a killed run may still write.
    """
    partial, older = (target.with_name(f"{target.name}.{state}") for state in ("partial", "older"))
    if older.exists() and not target.exists():
        older.rename(target)  # a write was killed between its two renames
    _remove(older, partial)
    written = partial / uuid.uuid4().hex
    try:
        _write(dataset, str(written), lance=_is_lance(output))
        if not written.exists():
            raise InputError(f"{output}: nothing was written: there are no rows")
        sync_files(written)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if target.exists():
        target.rename(older)
    written.rename(target)
    sync_folder(target.parent)
    _remove(older, partial)


def _remove(older: Path, partial: Path) -> None:
    shutil.rmtree(partial, ignore_errors=True)
    if older.exists():
        partial.mkdir(exist_ok=True)  # it exists if a task of a killed run has just written to it
        older.rename(partial / older.name)
        shutil.rmtree(partial, ignore_errors=True)


def _write_new(dataset: Dataset, url: str) -> None:
    """Write a dataset to a URL; raise ``ConfigurationError`` if the URL exists, because its files would be read too."""
    try:
        _write(dataset, url, lance=_is_lance(url))
    except ValueError as error:
        if isinstance(error, TwinvecError) or _EXISTS not in str(error):
            raise
        raise ConfigurationError(
            f"{url}: exists, perhaps as the part that a killed run has left; delete it, or choose another name"
        ) from error


def _write(dataset: Dataset, output: str, *, lance: bool) -> None:
    with raising_causes(dataset):
        if lance:
            dataset.write_lance(output)
        else:
            dataset.write_parquet(output, min_rows_per_file=_FILE_ROWS, mode=SaveMode.ERROR)


def _is_lance(output: str) -> bool:
    return PurePosixPath(output).suffix.lower() == ".lance"


def _others(folder: Path, output: str) -> list[str]:
    """Return the names of the files in a folder that ``write`` has not written."""
    ours = ("data", "_versions", "_transactions", "_indices", "_deletions") if _is_lance(output) else ()
    return sorted(each.name for each in folder.iterdir() if each.name not in ours and each.suffix != ".parquet")


def _need_lance(place: str) -> None:
    if find_spec("lance") is None:
        raise ConfigurationError(f"{place}: Lance is not installed: {install_line('twinvec-ray', 'lance')}")
