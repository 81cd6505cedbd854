"""The folder of a training run: whose it is, its checkpoints, and how the finished model gets into it.

A checkpoint counts only with its marker, which is written last and to the disk; what has none is a half-written one.
The manifest of the model is the last file of a finished run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError
from twinvec.models.integrity import MANIFEST, write_manifest
from twinvec.support.atomic import PARTIAL, atomic_write, sync_files
from twinvec.support.locks import exclusive_lock

_MARKER = "complete"
_RUN = "training.json"
_CHECKPOINTS = "checkpoints"
_UNFINISHED = "model.partial"
_LOCK = "training.lock"
_BEFORE_THE_RECORD = (_CHECKPOINTS, _LOCK, _RUN + PARTIAL)
"""What a run, killed in its first moments, may leave behind without a record."""


class RunFolder:
    """A folder that holds one run, new, half-way or finished.

    Raises:
        ConfigurationError: it holds something else, or a run with other settings.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path = path
        self._record_path = path / _RUN
        if path.exists() and not path.is_dir():
            raise ConfigurationError(f"{path}: is a file; choose another folder")
        if self._record_path.is_file():
            self._record: dict[str, Any] = _read(self._record_path)
            if self._record.get("digest") != digest:
                raise ConfigurationError(
                    f"{path}: holds a run with another configuration or other data; choose another folder, or delete it"
                )
        elif path.is_dir() and any(entry.name not in _BEFORE_THE_RECORD for entry in path.iterdir()):
            raise ConfigurationError(f"{path}: is not empty and holds no run of twinvec; choose another folder")
        else:
            self._record = {"digest": digest}

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints and other files of the run go until it is finished."""
        return self.path / _CHECKPOINTS

    @property
    def finished(self) -> bool:
        """Whether the model is there."""
        return (self.path / MANIFEST).is_file()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other runs out of the folder.

        Raises:
            ConfigurationError: another one is at work in it, or it cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"{self.path}: no folder can be made there: {error.strerror}") from error
        with exclusive_lock(self.path / _LOCK, f"{self.path}: another process is training into it"):
            yield

    def recall(self, key: str) -> Any:
        """What ``remember`` was told, by this process or one before; None if nothing."""
        return self._record.get(key)

    def remember(self, key: str, value: Any) -> None:
        """Keep a value with the run, at once and as a whole."""
        self._record[key] = value
        self.path.mkdir(parents=True, exist_ok=True)
        atomic_write(self._record_path, json.dumps(self._record, indent=2, sort_keys=True) + "\n")

    def last_checkpoint(self) -> Path | None:
        """The newest complete checkpoint."""
        complete = (path.parent for path in self.checkpoints.glob(f"checkpoint-*/{_MARKER}"))
        return max(complete, key=_step, default=None)

    def drop_incomplete(self) -> None:
        """Remove checkpoints that are not complete."""
        for folder in self.checkpoints.glob("checkpoint-*"):
            if not (folder / _MARKER).is_file():
                shutil.rmtree(folder)

    def finish(self, write_model: Callable[[Path], None], manifest: dict[str, Any]) -> None:
        """Have ``write_model(folder)`` write the model, move it into place, add the manifest, drop the checkpoints."""
        unfinished = self.path / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write_model(unfinished)
        for entry in sorted(unfinished.iterdir()):
            target = self.path / entry.name
            if target.is_dir():
                shutil.rmtree(target)
            entry.replace(target)
        unfinished.rmdir()
        write_manifest(self.path, manifest)
        shutil.rmtree(self.checkpoints, ignore_errors=True)


def mark_complete(checkpoint: Path) -> None:
    """Say that a checkpoint is whole, after everything in it is on the disk."""
    sync_files(checkpoint)
    atomic_write(checkpoint / _MARKER, "")


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _read(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes())
    except ValueError:
        record = None
    if not isinstance(record, dict):
        raise ConfigurationError(f"{path}: is not the record of a run; choose another folder, or delete it")
    return record
