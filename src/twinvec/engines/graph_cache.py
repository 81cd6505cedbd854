"""Graphs converted on this machine, kept in the user's cache folder.

The folder is ``TWINVEC_CACHE``, or else the system's own place for caches. A graph is found by what decides it: the
digest of what it computes (weights, settings of the backbone, pooling, head), the runtime with its version, and the way
it is made. It is written beside its place and moved there in one step; of several processes that want the same one, one
converts and the others wait. A graph that is damaged, or was left half-written, is made again.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from twinvec.engines.runtimes import RUNTIMES, Runtime, RuntimeName
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.models.cross_encoder_spec import ClassifierSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.models.integrity import read_object, sha256
from twinvec.tokens.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

EXACT = 1e-5
"""Largest difference of two engines that are called equal: 1 less the cosine of vectors; of logits, relative to 1."""

_FORMAT = 2
_GRAPH = "graph"
_RECORD = "graph.json"


@dataclass(frozen=True, slots=True)
class CachedGraph:
    """A converted graph and how far it is from the original: the largest difference on the probes."""

    path: Path
    difference: float

    @property
    def exact(self) -> bool:
        return self.difference <= EXACT


def cache_folder() -> Path:
    """Where converted graphs are kept."""
    stated = os.environ.get("TWINVEC_CACHE")
    if stated:
        return Path(stated).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("twinvec", appauthor=False)


def encoder_graph(name: RuntimeName, spec: ModelSpec, tokenizer: TextTokenizer, digest: str) -> CachedGraph:
    """The float32 graph of an encoder for a runtime, converted if it is not in the cache.

    ``digest`` is the encoder's ``graph_digest``.

    Raises:
        MissingExtraError: the runtime is not installed.
        EngineError: the model cannot be converted, or the cache folder cannot be written.
    """
    runtime = RUNTIMES[name]

    def make(path: Path) -> float:
        from twinvec.engines.tracing import Network, probe_batches, reference, worst_cosine, write_graph

        network = Network(spec)
        write_graph(name, network, spec.folder, path)
        with _new_graph(runtime, spec.folder):
            engine = runtime.engine(path)
        probes = probe_batches(tokenizer, 0 if spec.include_prompt else 2)
        return 1 - min(worst_cosine(engine.vectors(batch), reference(network, batch)) for batch in probes)

    return _cached(runtime, digest, spec.folder, make)


def classifier_graph(name: RuntimeName, spec: ClassifierSpec, tokenizer: TextTokenizer, digest: str) -> CachedGraph:
    """The same for a cross-encoder; ``digest`` is its ``classifier_digest``."""
    runtime = RUNTIMES[name]

    def make(path: Path) -> float:
        import numpy as np

        from twinvec.engines.tracing import Classifier, probe_pairs, reference, write_graph

        network = Classifier(spec)
        write_graph(name, network, spec.folder, path)
        with _new_graph(runtime, spec.folder):
            engine = runtime.scoring_engine(path)
        worst = 0.0
        for batch in probe_pairs(tokenizer):
            expected = reference(network, batch)
            difference = np.abs(engine.logits(batch) - expected) / (1 + np.abs(expected))
            worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max()))
        return worst

    return _cached(runtime, digest, spec.folder, make)


@contextmanager
def _new_graph(runtime: Runtime, origin: Path) -> Iterator[None]:
    """A graph that was made a moment ago is not damaged, whatever the runtime says of it."""
    try:
        yield
    except ModelIntegrityError as error:
        raise EngineError(f"{origin}: {runtime.package} cannot compute its graph: {error.__cause__}") from error


def _cached(runtime: Runtime, digest: str, origin: Path, make: Callable[[Path], float]) -> CachedGraph:
    """Find a graph, or have ``make(path)`` write it and say how far it is from ``origin``."""
    key = f"{_FORMAT} {runtime.name} {runtime.version} {digest}"
    home = cache_folder() / runtime.name / hashlib.sha256(key.encode()).hexdigest()[:32]
    graph = f"{_GRAPH}{runtime.suffixes[0]}"
    found = _read(home, graph)
    if found is not None:
        return found
    from filelock import FileLock

    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{home}.lock"):
            found = _read(home, graph)  # another process may have made it meanwhile
            if found is None:
                logger.info("converting %s for the %s engine, once", origin, runtime.name)
                _write(home, graph, origin, make)
                found = _read(home, graph)
    except OSError as error:
        raise EngineError(f"{home}: cannot be written: {error}; set TWINVEC_CACHE to another folder") from error
    if found is None:
        raise EngineError(f"{home}: was written, but cannot be read back")
    return found


def _read(home: Path, graph: str) -> CachedGraph | None:
    """The graph in ``home`` if it is whole."""
    record = home / _RECORD
    if not record.is_file():
        return None
    try:
        stated = read_object(record)
        if all(sha256(home / name) == expected for name, expected in stated["sha256"].items()):
            return CachedGraph(home / graph, float(stated["difference"]))
    except Exception as error:  # whatever is wrong with it, it can be made again
        logger.warning("%s: %s; converting again", home, error)
        return None
    logger.warning("%s: damaged; converting again", home)
    return None


def _write(home: Path, graph: str, origin: Path, make: Callable[[Path], float]) -> None:
    for left_over in home.parent.glob(f"{home.name}.*/"):  # by a process that was killed: this one has the lock
        shutil.rmtree(left_over, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=home.parent, prefix=f"{home.name}.", ignore_cleanup_errors=True) as name:
        partial = Path(name) / "graph"
        partial.mkdir()
        difference = make(partial / graph)
        hashes = {path.name: sha256(path) for path in sorted(partial.iterdir())}
        record = {"model": str(origin), "difference": difference, "sha256": hashes}
        (partial / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        if home.exists():
            shutil.rmtree(home)
        partial.rename(home)
