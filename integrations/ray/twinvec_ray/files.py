"""Files of texts as Ray datasets, and datasets as files of vectors; paths may be URLs such as ``s3://bucket/texts``."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from twinvec.errors import ConfigurationError, InputError
from twinvec.installation import install_line

if TYPE_CHECKING:
    from ray.data import Dataset

_FILE_ROWS = 100_000  # the blocks that workers encode are much smaller
_URL = re.compile(r"\w+://")


def read(source: str) -> Dataset:
    """Return the rows of Parquet (also a folder of it), JSON lines, Lance, or a text file, whose lines are ``text``.

    Raises:
        ConfigurationError: the name does not end like one of these, or Lance is not installed.
        InputError: there is no such file.
    """
    import ray.data

    path = PurePosixPath(source)
    suffix = path.suffix.lower()
    if not _URL.match(source):
        if not Path(source).exists():
            raise InputError(f"{source}: no such file or folder")
        source = str(Path(source).resolve())
    if suffix in (".jsonl", ".json", ".ndjson"):
        return ray.data.read_json(source)
    if suffix == ".txt":
        return ray.data.read_text(source, drop_empty_lines=False)
    if suffix == ".lance":
        _need_lance(source)
        return ray.data.read_lance(source)
    if suffix in (".parquet", ""):
        return ray.data.read_parquet(source)
    raise ConfigurationError(f"{source}: expected .parquet, .jsonl, .txt, .lance, or a folder of Parquet files")


def check_output(output: str) -> None:
    """Raise ``ConfigurationError`` unless vectors can be written there."""
    if PurePosixPath(output).suffix.lower() not in (".parquet", ".lance"):
        raise ConfigurationError(f"{output}: vectors are written to a folder NAME.parquet or NAME.lance")
    if output.lower().endswith(".lance"):
        _need_lance(output)
    if not _URL.match(output):
        path = Path(output)
        if not path.parent.is_dir():
            raise ConfigurationError(f"{output}: cannot be written: there is no folder {path.parent}")
        if path.is_file():
            raise ConfigurationError(f"{output}: is a file; vectors are written to a folder of several files")


def write(dataset: Dataset, output: str) -> None:
    """Compute the dataset, and write it to a folder; a local one appears when it is complete, instead of an older one.

    Raises:
        ConfigurationError: as for ``check_output``.
    """
    check_output(output)
    if _URL.match(output):
        _write(dataset, output)
        return
    target = Path(output).resolve()
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    _write(dataset, str(partial), lance=output.lower().endswith(".lance"))
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def _write(dataset: Dataset, output: str, *, lance: bool | None = None) -> None:
    if output.lower().endswith(".lance") if lance is None else lance:
        dataset.write_lance(output)
    else:
        dataset.write_parquet(output, min_rows_per_file=_FILE_ROWS)


def _need_lance(place: str) -> None:
    if find_spec("lance") is None:
        raise ConfigurationError(f"{place}: Lance is not installed: {install_line('twinvec-ray', 'lance')}")
