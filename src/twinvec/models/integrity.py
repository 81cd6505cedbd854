"""Check the files of a model folder: complete safetensors, unchanged since ``twinvec.json``, the manifest, was made."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from twinvec.errors import ModelIntegrityError
from twinvec.support.atomic import atomic_write

MANIFEST = "twinvec.json"
RUN_FILE = "training.json"
"""File with the state of a training run. A run without a manifest has not ended, since it writes the manifest last."""

_WEIGHTS = "model.safetensors"
_SAVE_AS_SAFETENSORS = (
    "if you trust the model, load it with sentence-transformers (SentenceTransformer or CrossEncoder) and save it with "
    "save_pretrained, which writes safetensors"
)


def weight_files(folder: Path) -> list[Path]:
    """Return the safetensors files of a model folder and of its modules' folders ("2_Dense").

    Raise ModelIntegrityError for a backbone with pickled weights or none, and for a shard index with a bad path.
    """
    homes = [folder, *sorted(path for path in folder.glob("[0-9]*_*") if path.is_dir())]
    files = [path for home in homes for path in _weights_of(home)]
    if not files:
        raise _without_weights(folder)
    return files


def loaded_weights(home: Path) -> list[Path]:
    """Return the files that a model is loaded from: ``model.safetensors``, or the shards of its index."""
    whole = home / _WEIGHTS
    found = [whole] if whole.is_file() else _shards(home)
    if not found:
        raise _without_weights(home)
    return found


def _shards(home: Path) -> list[Path]:
    """Return the files that a shard index names; none if there is no index."""
    index = home / "model.safetensors.index.json"
    if not index.is_file():
        return []
    names = read_object(index).get("weight_map")
    if not isinstance(names, dict):
        raise ModelIntegrityError(f"{index}: has no 'weight_map' table")
    shards = sorted({home / safe_relative(name, index) for name in names.values()})
    for shard in shards:
        if not shard.is_file():
            raise ModelIntegrityError(f"{shard}: missing, though {index} names it")
    return shards


def _weights_of(home: Path) -> list[Path]:
    _shards(home)  # checks the index of the shards
    files = sorted(home.glob("*.safetensors"))
    if files:
        return files
    pickled = [path for pattern in ("*.bin", "*.pt", "*.pth", "*.pkl") for path in sorted(home.glob(pattern))]
    if pickled:
        raise ModelIntegrityError(
            f"{pickled[0]}: pickled weights are refused, since loading them can run code; {_SAVE_AS_SAFETENSORS}"
        )
    config = home / "config.json"
    if config.is_file() and "model_type" in read_object(config):  # the folder of a backbone
        raise _without_weights(home)
    return []


def _without_weights(folder: Path) -> ModelIntegrityError:
    why = f"; pickled weights (pytorch_model.bin) are neither downloaded nor loaded; {_SAVE_AS_SAFETENSORS}"
    return missing(folder, _WEIGHTS, why)


def missing(folder: Path, name: str, why: str = "") -> ModelIntegrityError:
    """Return the error for a file that a model folder lacks; ``why`` says what needs the file."""
    if (folder / RUN_FILE).is_file() and not (folder / MANIFEST).is_file():
        why = (
            ", because the training run in this folder is not finished; start its command again "
            f"(twinvec train CONFIG.yaml -o {folder})"
        )
    return ModelIntegrityError(f"{folder / name}: missing{why}")


def verify_folder(folder: Path) -> None:
    """Raise ModelIntegrityError unless every weight file is complete and every file in the manifest has its hash."""
    recorded = manifest_hashes(folder)
    files = weight_files(folder)
    for name in recorded:
        if not (folder / safe_relative(name, folder / MANIFEST)).is_file():
            raise ModelIntegrityError(f"{folder / name}: missing, though {folder / MANIFEST} names it")
    for path in files:
        check_safetensors(path)
    for name, expected in recorded.items():
        check_hash(folder / name, expected, f"{folder / MANIFEST} records")


def write_manifest(folder: Path, extra: dict[str, Any] | None = None, graphs: Iterable[Path] = ()) -> None:
    """Write ``twinvec.json`` with the hashes of a folder's weights and graphs, and with ``extra``."""
    hashes = {path.relative_to(folder).as_posix(): sha256(path) for path in [*weight_files(folder), *graphs]}
    atomic_write(folder / MANIFEST, json.dumps({**(extra or {}), "sha256": hashes}, indent=2, sort_keys=True) + "\n")


def manifest_hashes(folder: Path) -> dict[str, str]:
    """Return file -> sha256 from ``twinvec.json``; empty if the file is missing."""
    path = folder / MANIFEST
    if not path.is_file():
        return {}
    hashes = read_object(path).get("sha256")
    if not isinstance(hashes, dict):
        raise ModelIntegrityError(f"{path}: has no 'sha256' table")
    return hashes


def read_json(path: Path) -> Any:
    """Parse a JSON file of a model; raise ModelIntegrityError if it is missing or not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelIntegrityError(f"{path}: missing") from None
    except (OSError, ValueError) as error:
        raise ModelIntegrityError(f"{path}: cannot be read as JSON: {error}") from error
    except RecursionError as error:
        raise ModelIntegrityError(f"{path}: cannot be read as JSON: nested too deeply") from error


def read_object(path: Path) -> dict[str, Any]:
    """Parse a JSON file that holds an object; raises as ``read_json``, also for another value."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise ModelIntegrityError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found


def optional_json(path: Path) -> dict[str, Any]:
    """Parse a JSON file that holds an object; return an empty one if the file is missing."""
    return read_object(path) if path.is_file() else {}


def safe_relative(name: object, origin: Path) -> PurePosixPath:
    """Return a path that the file ``origin`` names; raise ModelIntegrityError if it leaves the model's folder."""
    if not isinstance(name, str) or "\\" in name or "\0" in name:
        raise ModelIntegrityError(f"{origin}: expected a relative path with forward slashes, got {name!r}")
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", name):
        raise ModelIntegrityError(f"{origin}: the path {name!r} leaves the model's folder")
    return path


def sha256(path: Path) -> str:
    """Return the hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_hash(path: Path, expected: str, authority: str) -> None:
    """Raise ModelIntegrityError if a file cannot be read or has another hash than ``expected``.

    The error names ``authority``, the source of the expected hash.
    """
    try:
        actual = sha256(path)
    except OSError as error:
        raise ModelIntegrityError(f"{path}: cannot be read: {error.strerror}") from error
    if actual != expected:
        raise ModelIntegrityError(
            f"{path}: changed or damaged (its sha256 is {actual}, {authority} {expected}); get the file again"
        )


def check_safetensors(path: Path) -> None:
    """Raise ModelIntegrityError if the file is not a complete safetensors file with tensors."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as tensors:
            names = tensors.keys()
    except (SafetensorError, OSError) as error:
        raise ModelIntegrityError(f"{path}: not a complete safetensors file: {error}") from error
    if not names:
        raise ModelIntegrityError(f"{path}: holds no tensors")


def describe(names: Iterable[str]) -> str:
    """Join names for a message: ``a, b and c``."""
    *first, last = sorted(names)
    return f"{', '.join(first)} and {last}" if first else last
