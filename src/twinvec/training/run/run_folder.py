"""The folder of a training run: its identity, its record, its checkpoints, and the finished model.

A checkpoint is complete only with its marker file, which is written last and synced. The marker has the digests of the
other files, so a damaged checkpoint is not used. (Markers of older versions are empty.) A finished run has the model's
manifest.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError, ModelIntegrityError
from twinvec.models.integrity import MANIFEST, RUN_FILE, read_object, sha256, write_manifest
from twinvec.support.atomic import DISK_FULL, FILE_TOO_LARGE, PARTIAL, atomic_write, sync_files, why_no_room
from twinvec.support.checks import check_output_folder, listed
from twinvec.support.locks import exclusive_lock
from twinvec.training.run.config import TrainConfig

logger = logging.getLogger(__name__)

_MARKER = "complete"
_STATE = "trainer_state.json"
_CHECKPOINTS = "checkpoints"
_UNFINISHED = "model.partial"
_LOCK = "training.lock"
_WRITER_OF_TORCH = "inline_container"  # the source file that torch's errors of writing name
_LEAST_ROOM = 2**20  # a disk with fewer free bytes counts as full
_BEFORE_THE_RECORD = (_CHECKPOINTS, _LOCK, RUN_FILE + PARTIAL)
"""Files that a run may leave without a record if it is killed at its start."""
_CHECKPOINT = re.compile(r"checkpoint-\d+")
_PLACE = re.compile(r"model|data\.\d+\.path|evaluation\.(pairs|sts)")
"""Fields that hold a path. A run is identified by the content of these files, not by their paths."""
_MEMORY = ("kept_tokens", "token_budget")
"""Fields of ``batches`` that decide how much memory a batch takes, but not which rows it has."""
_SHOWN_CHANGES = 5
_SHOWN_VALUE = 80  # most characters of a value in an error
_MODEL_FILES = {".safetensors", ".json", ".txt", ".model"}


def run_fingerprint(config: TrainConfig, files: dict[str, str]) -> str:
    """Return the digest of a run's settings and ``files`` (``file_digests``), without the paths of the files."""
    places: Any = {"model": True, "data": {"__all__": {"path"}}, "evaluation": {"pairs", "sts"}}
    digest = hashlib.sha256(config.model_dump_json(exclude=places).encode())
    if not Path(config.model).is_dir():
        digest.update(config.model.encode())
    for name, each in files.items():
        digest.update(name.encode() + bytes.fromhex(each))
    return digest.hexdigest()


def file_digests(config: TrainConfig) -> dict[str, str]:
    """Return name -> SHA-256 for the files of data, evaluation and model; the first dataset's name is "data 0"."""
    files = {f"data {number}": source.path for number, source in enumerate(config.data)}
    if config.evaluation is not None:
        named = {"pairs": config.evaluation.pairs, "sts": config.evaluation.sts}
        files |= {name: path for name, path in named.items() if path is not None}
    model = Path(config.model)
    if model.is_dir():
        files |= {
            str(path.relative_to(model)): path for path in sorted(model.rglob("*")) if path.suffix in _MODEL_FILES
        }
    return {name: sha256(path) for name, path in files.items()}


class RunFolder:
    """The folder of one run, which ``config`` and ``files`` (``file_digests``) identify.

    A run that is out of memory may go on with other values of ``kept_tokens`` and ``token_budget``.

    Raises ConfigurationError if the folder holds something else or another run; the error names the differences.
    """

    def __init__(self, path: Path, config: TrainConfig, files: dict[str, str]) -> None:
        self.path = path
        self._record_path = path / RUN_FILE
        digest = run_fingerprint(config, files)
        if path.exists() and not path.is_dir():
            raise ConfigurationError(f"{path}: is a file; choose another folder")
        if self._record_path.is_file():
            try:
                self._record = read_object(self._record_path)
            except ModelIntegrityError as error:
                reason = "is not the record of a run; choose another folder, or delete it"
                if isinstance(error.__cause__, OSError):
                    reason = f"cannot be read: {error.__cause__.strerror}"
                raise ConfigurationError(f"{self._record_path}: {reason}") from error
            if self._record.get("digest") != digest and not self._is_with_other_memory(config, files):
                changed = _changed_files(self._record.get("files"), files, config)
                reason, remedy = _difference(self._record.get("config"), config, changed)
                restore = f"{remedy} to continue this run, " if remedy and not self.finished else ""
                raise ConfigurationError(f"{path}: holds {reason}; {restore}choose another folder, or delete it")
        elif path.is_dir() and any(entry.name not in _BEFORE_THE_RECORD for entry in path.iterdir()):
            raise ConfigurationError(f"{path}: is not empty and holds no run of twinvec; choose another folder")
        else:
            self._record = {}
        self._record["digest"] = digest

    def _is_with_other_memory(self, config: TrainConfig, files: dict[str, str]) -> bool:
        """Return whether the folder's run differs from this one only in the memory that a batch takes."""
        stored = self._record.get("config")
        batches = stored.get("batches") if isinstance(stored, dict) else None
        if not isinstance(batches, dict):
            return False
        memory = {name: batches.get(name) for name in _MEMORY}
        if not all(value is None or isinstance(value, int) for value in memory.values()):
            return False
        before = config.model_copy(update={"batches": config.batches.model_copy(update=memory)})
        return self._record.get("digest") == run_fingerprint(before, files)

    @property
    def checkpoints(self) -> Path:
        """Folder for checkpoints and other files of an unfinished run."""
        return self.path / _CHECKPOINTS

    @property
    def finished(self) -> bool:
        """Whether the folder holds the finished model."""
        return (self.path / MANIFEST).is_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make and lock the folder.

        Raise ConfigurationError if it cannot be made or written, or if another process has locked it.
        """
        check_output_folder(self.path)
        with exclusive_lock(self.path / _LOCK, f"{self.path}: another process is training into it"):
            yield

    def check_unlocked(self) -> None:
        """Raise ConfigurationError if another process has locked the folder."""
        if (self.path / _LOCK).exists():
            with self.locked():
                pass

    @contextmanager
    def with_room(self) -> Iterator[None]:
        """Inside the block, raise ConfigurationError instead of the error of a full disk or of a file limit."""
        try:
            yield
        except Exception as error:
            if not (reason := why_no_room(error) or self._why_unwritten(error)):
                raise
            again = "run the same training again: it continues from its last complete checkpoint"
            raise ConfigurationError(f"{self.path}: {reason}, and {again}") from error

    def _why_unwritten(self, error: Exception) -> str:
        """Return why torch could not write a file, or ""; the error of torch itself names only a wrong position."""
        if not isinstance(error, RuntimeError):
            return ""
        if shutil.disk_usage(self.path).free < _LEAST_ROOM:
            return DISK_FULL
        return FILE_TOO_LARGE if _WRITER_OF_TORCH in str(error) else ""

    def recall(self, key: str) -> Any:
        """Return the value that ``remember`` stored under a key, also in an earlier process; None if there is none."""
        return self._record.get(key)

    def remember(self, key: str, value: Any) -> None:
        """Store a value under a key in the run's record, and write the record to the disk."""
        self._record[key] = value
        self.path.mkdir(parents=True, exist_ok=True)
        atomic_write(self._record_path, json.dumps(self._record, indent=2, sort_keys=True) + "\n")

    def last_checkpoint(self) -> Path | None:
        """Return the newest complete checkpoint that a run can resume from, or None.

        A checkpoint names the best one before it, which must be complete, too.

        Raise ConfigurationError if a checkpoint cannot be read.
        """
        with self._readable():
            whole = {_step(folder): folder for folder in self._checkpoint_folders() if not _fault(folder)}
            for step in sorted(whole, reverse=True):
                if _best_step(whole[step]) in (None, *whole):
                    return whole[step]
        return None

    def drop_unusable(self, last: Path | None) -> None:
        """Remove damaged checkpoints, and all checkpoints after ``last``, from which the run continues."""
        with self._readable():
            for folder in self._checkpoint_folders():
                fault = _fault(folder)
                if fault and (folder / _MARKER).is_file():
                    logger.warning("%s: is not used: %s is missing or damaged", folder, fault)
                if fault or last is None or _step(folder) > _step(last):
                    shutil.rmtree(folder)

    def _checkpoint_folders(self) -> list[Path]:
        if not self.checkpoints.exists():
            return []
        return [folder for folder in self.checkpoints.iterdir() if _CHECKPOINT.fullmatch(folder.name)]

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Inside the block, raise ConfigurationError instead of an OSError."""
        try:
            yield
        except OSError as error:
            place = error.filename or self.checkpoints
            raise ConfigurationError(f"{place}: cannot be read or removed: {error.strerror or error}") from error

    def finish(self, write_model: Callable[[Path], None], manifest: dict[str, Any]) -> None:
        """Call ``write_model(folder)``, move the model into place, write the manifest, and remove the checkpoints."""
        unfinished = self.path / _UNFINISHED
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        write_model(unfinished)
        permissions = unfinished.stat().st_mode & 0o666
        for path in unfinished.rglob("*"):
            if path.is_file():
                path.chmod(permissions)  # safetensors lets only the owner read its files
        sync_files(unfinished)  # a power cut after the manifest must not lose files that it names
        for entry in sorted(unfinished.iterdir()):
            target = self.path / entry.name
            if target.is_dir():
                shutil.rmtree(target)
            entry.replace(target)
        unfinished.rmdir()
        write_manifest(self.path, manifest)
        self._drop_checkpoints()

    def tidy(self) -> None:
        """Remove the checkpoints and the lock file of a finished run that was killed before it removed them."""
        if self.checkpoints.is_dir() or (self.path / _LOCK).exists():
            with self.locked():
                self._drop_checkpoints()

    def _drop_checkpoints(self) -> None:
        shutil.rmtree(self.checkpoints, ignore_errors=True)


def _changed_files(stored: Any, files: dict[str, str], config: TrainConfig) -> list[str]:
    """Return the files whose digests differ from a run's record; none if the record is of an older version."""
    if not isinstance(stored, dict):
        return []
    changed = [name for name in {**stored, **files} if stored.get(name) != files.get(name)]
    places = {f"data {number}": f"{source.path} (data.{number}.path)" for number, source in enumerate(config.data)}
    for name in ("pairs", "sts"):
        places[name] = f"{getattr(config.evaluation, name, None)} (evaluation.{name})"
    return [places.get(name) or f"{Path(config.model, name)} (model)" for name in changed]


def _difference(stored: Any, config: TrainConfig, changed: list[str]) -> tuple[str, str]:
    """Return how a stored run differs from this one, and the remedy ("" if there is none)."""
    if not isinstance(stored, dict):
        return "a run with another configuration or other data", ""
    changes = list(_changes(stored, config.model_dump(mode="json")))
    if not changes and changed:
        have, them = ("has", "the file") if len(changed) == 1 else ("have", "the files")
        return (
            f"a run of this configuration, but {listed(changed, _SHOWN_CHANGES)} {have} changed since",
            f"restore {them}",
        )
    if not changes:
        return (
            "a run of this configuration, but a file of its data, of its evaluation or of its model has changed since",
            "restore the file",
        )
    values = "this value" if len(changes) == 1 else "these values"
    more = f", and {len(changes) - _SHOWN_CHANGES} more" if len(changes) > _SHOWN_CHANGES else ""
    shown = ", ".join(changes[:_SHOWN_CHANGES])
    return f"a run with another configuration: {shown}{more}", f"restore {values}"


def _changes(old: Any, new: Any, field: str = "") -> Iterator[str]:
    """Yield each field of a configuration that differs. Only the last part of a path is compared: files may move."""
    if isinstance(old, dict) and isinstance(new, dict):
        another = field == "objective" and old.get("name") != new.get("name")  # another objective has other fields
        for name in ["name"] if another else {**new, **old}:
            yield from _changes(old.get(name), new.get(name), f"{field}.{name}".removeprefix("."))
    elif field == "data" and isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"data had {len(old)} and has {len(new)} datasets"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from _changes(one, other, f"{field}.{number}")
    elif _PLACE.fullmatch(field) and isinstance(old, str) and isinstance(new, str):
        if Path(old).name != Path(new).name:
            yield f"{field} was {old} and is {new}"
    elif old != new:
        yield f"{field} was {_shown(old)} and is {_shown(new)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN_VALUE else f"{text[:_SHOWN_VALUE]}..."


def mark_complete(checkpoint: Path) -> None:
    """Sync all files of a checkpoint to disk, then write its marker with their digests."""
    sync_files(checkpoint)
    files = (path for path in sorted(checkpoint.iterdir()) if path.is_file() and path.name != _MARKER)
    digests = {path.name: sha256(path) for path in files}
    atomic_write(checkpoint / _MARKER, json.dumps(digests, indent=2) + "\n")


def _fault(checkpoint: Path) -> str | None:
    """Return the name of a file that is missing or has changed since the checkpoint was marked; None if it is whole."""
    marker = checkpoint / _MARKER
    if not marker.is_file():
        return _MARKER
    try:
        digests = json.loads(marker.read_text() or "{}")
        return next((name for name, digest in digests.items() if sha256(checkpoint / name) != digest), None)
    except (FileNotFoundError, IsADirectoryError) as error:
        return Path(error.filename).name
    except (ValueError, AttributeError):
        return _MARKER


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def _best_step(checkpoint: Path) -> int | None:
    """Return the step of the best checkpoint so far, whose weights the run may end with; None without a measurement."""
    state = checkpoint / _STATE
    best: int | None = json.loads(state.read_text()).get("best_global_step") if state.exists() else None
    return best or None
