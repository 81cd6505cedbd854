"""Graphs converted on this machine, kept in the user's cache folder.

The folder is ``TWINVEC_CACHE``, or else the system's own place for caches. A graph is found by what decides it: the
digest of the network (weights, settings of the backbone, pooling, head), the version of OpenVINO and of the way it is
made. It is written beside its place and moved there in one step; of several processes that want the same one, one
converts and the others wait. A graph that is damaged, or was left half-written, is made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from twinvec.errors import EngineError
from twinvec.models import read_object, sha256
from twinvec.spec import ModelSpec
from twinvec.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

EXACT = 0.99999
"""Smallest cosine between the vectors of two engines that are called equal."""

_FORMAT = 1
_GRAPH = "graph.xml"
_RECORD = "graph.json"


@dataclass(frozen=True, slots=True)
class CachedGraph:
    """A converted graph and how near it comes to the original: the worst cosine on the probes."""

    path: Path
    worst_cosine: float

    @property
    def exact(self) -> bool:
        return self.worst_cosine >= EXACT


def cache_folder() -> Path:
    """Where converted graphs are kept."""
    stated = os.environ.get("TWINVEC_CACHE")
    if stated:
        return Path(stated).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("twinvec", appauthor=False)


def openvino_graph(spec: ModelSpec, tokenizer: TextTokenizer, network: str) -> CachedGraph:
    """The float32 graph of a model, converted if it is not in the cache; ``network`` is its ``network_digest``.

    Raises:
        EngineError: the model cannot be converted, or the cache folder cannot be written.
    """
    key = f"{_FORMAT} openvino {version('openvino')} {network} {spec.include_prompt}"
    home = cache_folder() / "openvino" / hashlib.sha256(key.encode()).hexdigest()[:32]
    found = _read(home)
    if found is not None:
        return found
    from filelock import FileLock

    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{home}.lock"):
            found = _read(home)  # another process may have made it meanwhile
            if found is None:
                logger.info("converting %s for OpenVINO, once", spec.folder)
                _make(home, spec, tokenizer)
                found = _read(home)
    except OSError as error:
        raise EngineError(f"{home}: cannot be written: {error}; set TWINVEC_CACHE to another folder") from error
    if found is None:
        raise EngineError(f"{home}: was written, but cannot be read back")
    return found


def _read(home: Path) -> CachedGraph | None:
    """The graph in ``home`` if it is whole."""
    record = home / _RECORD
    if not record.is_file():
        return None
    try:
        stated = read_object(record)
        if all(sha256(home / name) == expected for name, expected in stated["sha256"].items()):
            return CachedGraph(home / _GRAPH, float(stated["worst_cosine"]))
    except Exception as error:  # whatever is wrong with it, it can be made again
        logger.warning("%s: %s; converting again", home, error)
        return None
    logger.warning("%s: damaged; converting again", home)
    return None


def _make(home: Path, spec: ModelSpec, tokenizer: TextTokenizer) -> None:
    from twinvec.engines.openvino import OpenVinoEngine
    from twinvec.export import convert_openvino, probe_batches, reference_vectors, save_openvino, worst_cosine

    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}.", ignore_cleanup_errors=True) as name:
        partial = Path(name) / "graph"
        partial.mkdir()
        graph, network = convert_openvino(spec)
        save_openvino(graph, partial / _GRAPH)
        engine = OpenVinoEngine(partial / _GRAPH)
        worst = min(
            worst_cosine(engine.vectors(batch), reference_vectors(network, batch))
            for batch in probe_batches(spec, tokenizer)
        )
        record = {
            "model": str(spec.folder),
            "worst_cosine": worst,
            "sha256": {path.name: sha256(path) for path in sorted(partial.iterdir())},
        }
        (partial / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if home.exists():
            shutil.rmtree(home)
        partial.rename(home)
