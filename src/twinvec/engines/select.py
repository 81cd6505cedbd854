"""Which engine computes: the one asked for, or the fastest that is exact.

``auto`` on a CPU takes the graph that ``twinvec export`` put into the model's folder, in int8 where it passed its
check; without one, a graph converted for OpenVINO, once, into the user's cache. torch computes where OpenVINO is not
installed, on a GPU, in half precision, for a model so small that converting it costs more than it saves, and where the
converted graph is not exact.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from twinvec.classifier import ClassifierSpec
from twinvec.engines.base import Engine, ScoringEngine
from twinvec.engines.processor import sums_bytes_exactly
from twinvec.errors import ConfigurationError, EngineError
from twinvec.exported import find_export
from twinvec.graph_cache import EXACT, CachedGraph, classifier_graph, encoder_graph
from twinvec.space import classifier_digest, graph_digest
from twinvec.spec import ModelSpec
from twinvec.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

EngineName = Literal["auto", "torch", "openvino"]
Precision = Literal["auto", "float32", "int8", "bfloat16", "float16"]

_WORTH_CONVERTING = 16 * 1024 * 1024  # bytes of weights


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked for.

    Attributes:
        engine: What computes.
        device: As torch names it; None for a GPU where there is one.
        precision: Of the computation.

    Raises:
        ConfigurationError: an engine or a precision that is not known.
    """

    engine: EngineName = "auto"
    device: str | None = None
    precision: Precision = "auto"

    def __post_init__(self) -> None:
        for value, known, what in ((self.engine, EngineName, "engine"), (self.precision, Precision, "precision")):
            if value not in get_args(known):
                raise ConfigurationError(f"{what} {value!r} is not one of {', '.join(get_args(known))}")

    @property
    def torch_precision(self) -> str:
        return "float32" if self.precision == "auto" else self.precision


def load_engine(wanted: Wanted, root: Path, spec: ModelSpec, tokenizer: TextTokenizer, network: str) -> Engine:
    """Load the engine for an encoder.

    Args:
        wanted: What was asked for.
        root: The model's folder.
        spec: Its settings.
        tokenizer: Its tokenizer.
        network: Its ``network_digest``.

    Raises:
        ConfigurationError: engine, device and precision do not go together, or there is no int8 export.
        MissingExtraError: the engine's package is not installed.
        ModelIntegrityError: the folder's export is damaged, or of other weights.
        EngineError: the model cannot be converted, or is not exact afterwards.
    """
    digest = graph_digest(spec, network)
    graph = _graph(wanted, root, spec.folder, digest, lambda: encoder_graph(spec, tokenizer, digest))
    if graph is None:
        from twinvec.engines.torch import TorchEngine

        return TorchEngine(spec, device=wanted.device, precision=wanted.torch_precision)
    from twinvec.engines.openvino import OpenVinoEngine

    return OpenVinoEngine(graph.path, precision=graph.precision, dim=spec.truncate_dim, normalizes=spec.normalizes)


def load_scoring_engine(wanted: Wanted, root: Path, spec: ClassifierSpec, tokenizer: TextTokenizer) -> ScoringEngine:
    """Load the engine for a cross-encoder; arguments and errors as for ``load_engine``."""
    digest = classifier_digest(spec)
    graph = _graph(wanted, root, spec.folder, digest, lambda: classifier_graph(spec, tokenizer, digest))
    if graph is None:
        from twinvec.engines.torch import TorchScoringEngine

        return TorchScoringEngine(spec.folder, device=wanted.device, precision=wanted.torch_precision)
    from twinvec.engines.openvino import OpenVinoScoringEngine

    return OpenVinoScoringEngine(graph.path, precision=graph.precision)


@dataclass(frozen=True, slots=True)
class _Graph:
    path: Path
    precision: str


def _graph(wanted: Wanted, root: Path, weights: Path, digest: str, convert: Callable[[], CachedGraph]) -> _Graph | None:
    """The graph that OpenVINO is to compute; None where torch computes."""
    if wanted.engine == "torch" or not _is_for_openvino(wanted):
        return None
    from twinvec.engines.openvino import import_openvino

    import_openvino()
    exported = _exported(root, digest, wanted.precision)
    if exported is not None:
        return exported
    if wanted.engine == "auto" and _bytes_of_weights(weights) < _WORTH_CONVERTING:
        return None
    try:
        made = convert()
        if not made.exact:
            raise EngineError(f"{made.path}: not exact: differs by {made.difference:.2g}, expected at most {EXACT}")
    except EngineError as error:
        if wanted.engine == "openvino":
            raise
        logger.warning("%s; torch computes instead", error)
        return None
    return _Graph(made.path, "float32")


def _is_for_openvino(wanted: Wanted) -> bool:
    """Whether it can do what was asked for, and should.

    Raises:
        ConfigurationError: it is asked for by name, as int8 is, and cannot.
    """
    by_name = wanted.engine == "openvino" or wanted.precision == "int8"
    if wanted.device not in (None, "cpu"):
        if by_name:
            raise ConfigurationError(f"the openvino engine computes on the CPU, not on {wanted.device!r}")
        return False
    if wanted.precision not in ("auto", "float32", "int8"):
        if by_name:
            raise ConfigurationError(f"the openvino engine computes in float32 and int8, not in {wanted.precision!r}")
        return False
    return by_name or (importlib.util.find_spec("openvino") is not None and not (wanted.device is None and _has_gpu()))


def _exported(root: Path, digest: str, precision: str) -> _Graph | None:
    """The graph in the model's own folder.

    One of int8 that failed its check, or whose sums would saturate on this processor, only where int8 is asked for.
    """
    if precision in ("auto", "int8"):
        found = find_export(root, digest, "openvino", "int8")
        good = found is not None and found.passed and (found.weight_bits < 8 or sums_bytes_exactly())
        if found is not None and (good or precision == "int8"):
            return _Graph(found.path, found.precision)
        if precision == "int8":
            raise ConfigurationError(
                f"{root}: holds no int8 export; make a folder that does: twinvec export MODEL -o FOLDER "
                "--precision int8 --calibrate TEXTS"
            )
    found = find_export(root, digest, "openvino", "float32")
    return None if found is None else _Graph(found.path, found.precision)


def _bytes_of_weights(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _has_gpu() -> bool:
    """Asks torch only where there is a driver: importing torch takes seconds."""
    if shutil.which("nvidia-smi") is None and not Path("/proc/driver/nvidia/version").exists():
        return False
    import torch

    return torch.cuda.is_available()
