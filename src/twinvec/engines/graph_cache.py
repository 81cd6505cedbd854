"""Graphs converted on this machine, in the folder ``TWINVEC_CACHE`` (default: the user's cache folder).

The key of a graph covers the network (weights, backbone settings, pooling, head), the runtime with its version, and the
format of the cache. If several processes need a graph, one of them converts the model into a temporary folder and
renames the folder, while the others wait. A damaged graph is converted again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from twinvec.engines.building.backbones import can_build, missing_part
from twinvec.engines.loaded_model import LoadedModel
from twinvec.engines.runtimes import RUNTIMES, RuntimeName
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.models.backbone import BackboneSpec
from twinvec.models.integrity import read_object, sha256
from twinvec.support.extras import import_torch

logger = logging.getLogger(__name__)

EXACT = 1e-5
"""Largest difference at which two engines count as equal: 1 - cosine of vectors, or relative difference of logits."""

_FORMAT = 2
_RECORD = "graph.json"


@dataclass(frozen=True, slots=True)
class CachedGraph:
    """A converted graph, and its largest difference from the model on probe texts."""

    path: Path
    difference: float

    @property
    def exact(self) -> bool:
        return self.difference <= EXACT


def cache_folder() -> Path:
    """Return the folder of converted graphs; raise EngineError if it is in a home folder that is not known."""
    stated = os.environ.get("TWINVEC_CACHE")
    try:
        if stated:
            return Path(stated).expanduser()
        from platformdirs import user_cache_path

        return user_cache_path("twinvec", appauthor=False).expanduser()  # older versions leave "~" in place
    except RuntimeError as error:
        raise EngineError(
            f"{stated or 'the cache of converted graphs'}: the home folder is not known; set TWINVEC_CACHE to a folder"
        ) from error


def cached_graph(name: RuntimeName, model: LoadedModel[BackboneSpec]) -> CachedGraph:
    """Return the float32 graph of a model for a runtime; convert the model if the cache lacks it.

    Raise MissingExtraError if the runtime is missing, and EngineError if the graph is not exact, or if converting or
    writing fails.
    """
    runtime = RUNTIMES[name]
    key = f"{_FORMAT} {runtime.name} {runtime.version} {model.graph}"
    home = cache_folder() / runtime.name / hashlib.sha256(key.encode()).hexdigest()[:32]
    file = f"graph{runtime.suffixes[0]}"
    found = _read(home, file) or _convert_once(home, file, name, model)
    if not found.exact:
        raise EngineError(
            f"{found.path}: the result of the converted graph differs from the model by {found.difference:.2g}, and "
            f"the limit is {EXACT}; use another version of {runtime.package}, or engine='torch', which needs no graph"
        )
    return found


def _convert_once(home: Path, file: str, name: RuntimeName, model: LoadedModel[BackboneSpec]) -> CachedGraph:
    """Return the graph in ``home``. This process converts the model, or waits until another process has done so."""
    from filelock import FileLock

    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{home}.lock"):
            found = _read(home, file)  # another process may have written the graph in the meantime
            if found is None:
                logger.warning("preparing %s for this machine; this happens once", model.name)
                _write(home, file, name, model)
                found = _read(home, file)
    except OSError as error:
        raise EngineError(
            f"{home}: cannot be written: {error.strerror or error}; set TWINVEC_CACHE to another folder"
        ) from error
    if found is None:
        raise EngineError(f"{home}: was written, but cannot be read; set TWINVEC_CACHE to another folder")
    return found


def _read(home: Path, file: str) -> CachedGraph | None:
    """Return the graph in ``home``, or None if it is missing or damaged."""
    record = home / _RECORD
    if not record.is_file():
        return None
    try:
        stated = read_object(record)
        if any(sha256(home / name) != expected for name, expected in stated["sha256"].items()):
            raise ModelIntegrityError("damaged")
        return CachedGraph(home / file, float(stated["difference"]))
    except (ModelIntegrityError, OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        logger.warning("%s: %s; converting again", home, error)
        return None


def _write(home: Path, file: str, name: RuntimeName, model: LoadedModel[BackboneSpec]) -> None:
    if can_build(model.spec):
        from twinvec.engines.building.convert import convert
    else:  # the graph is made by tracing
        import_torch(f"making the graph of {model.spec.folder} ({missing_part(model.spec.config)})")
        from twinvec.engines.tracing import convert
    for left_over in home.parent.glob(f"{home.name}.*/"):  # left by killed processes: this process holds the lock
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}.", ignore_cleanup_errors=True) as folder:
        partial = Path(folder) / "graph"
        partial.mkdir()
        difference = convert(name, model, partial / file)
        hashes = {path.name: sha256(path) for path in sorted(partial.iterdir())}
        record = {"model": str(model.spec.folder), "difference": difference, "sha256": hashes}
        (partial / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if home.exists():
            shutil.rmtree(home)
        partial.rename(home)
