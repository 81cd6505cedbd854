"""Files of texts as Ray datasets, and datasets as files of vectors; paths may be URLs such as ``s3://bucket/texts``."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from ray.exceptions import RayError

from twinvec.errors import ConfigurationError, InputError
from twinvec.installation import install_line
from twinvec.support.checks import path_text
from twinvec_ray.blocks import raising_causes
from twinvec_ray.cluster import check_dataset

if TYPE_CHECKING:
    from ray.data import Dataset

_JSON_LINES = (".jsonl", ".json", ".ndjson")
_FILE_ROWS = 100_000  # rows of a file; the blocks that workers encode are much smaller
_URL = re.compile(r"\w+://")


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
    import ray.data

    if suffix in _JSON_LINES:
        return ray.data.read_json(source)
    if suffix == ".txt":
        return ray.data.read_text(source, drop_empty_lines=False)
    if suffix == ".lance":
        return ray.data.read_lance(source)
    context = ray.data.DataContext.get_current()
    default = getattr(context, "use_datasource_v2", False)  # Ray 2.51 has no such setting
    context.use_datasource_v2 = False  # its actors take 10 s of CPU to start: as much as encoding 500 passages
    try:
        return ray.data.read_parquet(source)
    finally:
        context.use_datasource_v2 = default


def check_output(output: str) -> None:
    """Raise ``ConfigurationError`` unless vectors can be written there."""
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

    Raises:
        ConfigurationError: as for ``check_output``, or ``dataset`` is not a Ray dataset.
        InputError: the dataset has no rows.
        TwinvecError: the error of a step of the dataset; an ``EngineError`` quotes an error of another library.
    """
    check_dataset(dataset, "dataset")
    output = path_text(output, "output")
    check_output(output)
    if _URL.match(output):
        _write(dataset, output, lance=_is_lance(output))
        return
    target = Path(output).resolve()
    partial, older = (target.with_name(f"{target.name}.{state}") for state in ("partial", "older"))
    if older.exists() and not target.exists():
        older.rename(target)  # a write was killed between its two renames
    for left in (partial, older):
        shutil.rmtree(left, ignore_errors=True)
    try:
        _write(dataset, str(partial), lance=_is_lance(output))
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if not partial.exists():
        raise InputError(f"{output}: nothing was written: there are no rows")
    if target.exists():
        target.rename(older)
    partial.rename(target)
    shutil.rmtree(older, ignore_errors=True)


def _write(dataset: Dataset, output: str, *, lance: bool) -> None:
    with raising_causes(dataset):
        if lance:
            dataset.write_lance(output)
        else:
            dataset.write_parquet(output, min_rows_per_file=_FILE_ROWS)


def _is_lance(output: str) -> bool:
    return output.lower().endswith(".lance")


def _others(folder: Path, output: str) -> list[str]:
    """Return the names of the files in a folder that ``write`` has not written."""
    ours = ("data", "_versions", "_transactions", "_indices", "_deletions") if _is_lance(output) else ()
    return sorted(each.name for each in folder.iterdir() if each.name not in ours and each.suffix != ".parquet")


def _need_lance(place: str) -> None:
    if find_spec("lance") is None:
        raise ConfigurationError(f"{place}: Lance is not installed: {install_line('twinvec-ray', 'lance')}")
