"""Which engine computes: the one asked for, or the fastest that is exact.

``auto`` on a CPU takes the graph that ``twinvec export`` put into the model's folder, in int8 where it passed its
check, for OpenVINO before ONNX Runtime; without one, a graph converted for OpenVINO, once, into the user's cache. torch
computes where there is neither, on a GPU, in float16, in bfloat16 where OpenVINO does not have it, for a model so small
that converting it costs more than it saves, and where the converted graph is not exact.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from twinvec.engines.base import Engine, ScoringEngine
from twinvec.engines.cpu import sums_bytes_exactly
from twinvec.engines.exports import find_export
from twinvec.engines.graph_cache import EXACT, CachedGraph, classifier_graph, encoder_graph
from twinvec.engines.runtimes import RUNTIMES, Runtime, RuntimeName
from twinvec.errors import ConfigurationError, EngineError
from twinvec.models.cross_encoder_spec import ClassifierSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.models.space import classifier_digest, graph_digest
from twinvec.support.checks import check_choice
from twinvec.tokens.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

EngineName = Literal["auto", "torch", "openvino", "onnx"]
Precision = Literal["auto", "float32", "int8", "bfloat16", "float16"]

_WORTH_CONVERTING = 16 * 1024 * 1024  # bytes of weights


@dataclass(frozen=True, slots=True)
class EngineChoice:
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
        check_choice(self.engine, EngineName, "engine")
        check_choice(self.precision, Precision, "precision")

    @property
    def torch_precision(self) -> str:
        return "float32" if self.precision == "auto" else self.precision


def load_engine(wanted: EngineChoice, root: Path, spec: ModelSpec, tokenizer: TextTokenizer, network: str) -> Engine:
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
    graph = _graph(wanted, root, spec.folder, digest, lambda name: encoder_graph(name, spec, tokenizer, digest))
    if graph is None:
        from twinvec.engines.torch import TorchEngine

        return TorchEngine(spec, device=wanted.device, precision=wanted.torch_precision)
    engine = graph.runtime.engine
    return engine(graph.path, precision=graph.precision, dim=spec.truncate_dim, normalizes=spec.normalizes)


def load_scoring_engine(
    wanted: EngineChoice, root: Path, spec: ClassifierSpec, tokenizer: TextTokenizer
) -> ScoringEngine:
    """Load the engine for a cross-encoder; arguments and errors as for ``load_engine``."""
    digest = classifier_digest(spec)
    graph = _graph(wanted, root, spec.folder, digest, lambda name: classifier_graph(name, spec, tokenizer, digest))
    if graph is None:
        from twinvec.engines.torch import TorchScoringEngine

        return TorchScoringEngine(spec.folder, device=wanted.device, precision=wanted.torch_precision)
    return graph.runtime.scoring_engine(graph.path, precision=graph.precision)


@dataclass(frozen=True, slots=True)
class _Graph:
    runtime: Runtime
    path: Path
    precision: str


def _graph(
    wanted: EngineChoice, root: Path, weights: Path, digest: str, convert: Callable[[RuntimeName], CachedGraph]
) -> _Graph | None:
    """The graph that is to be computed; None where torch computes."""
    runtimes = _runtimes(wanted)
    if not runtimes:
        return None
    exported = _exported(runtimes, root, digest, wanted.precision)
    if exported is not None:
        return exported
    runtime = runtimes[0]
    if wanted.engine == "auto" and (runtime.name != "openvino" or _bytes_of_weights(weights) < _WORTH_CONVERTING):
        return None
    try:
        made = convert(runtime.name)
        if not made.exact:
            raise EngineError(f"{made.path}: not exact: differs by {made.difference:.2g}, expected at most {EXACT}")
    except EngineError as error:
        if wanted.engine != "auto":
            raise
        logger.warning("%s; torch computes instead", error)
        return None
    return _Graph(runtime, made.path, _of_float32(wanted.precision))


def _runtimes(wanted: EngineChoice) -> list[Runtime]:
    """Those that can do what was asked for, and should, best first; none where torch is to compute.

    Raises:
        ConfigurationError: a runtime is asked for by name, or int8 is, and cannot do that.
        MissingExtraError: it is not installed.
    """
    if wanted.engine == "torch":
        return []
    by_name = wanted.engine != "auto" or wanted.precision == "int8"
    name: RuntimeName = "openvino" if wanted.engine == "auto" else wanted.engine
    if wanted.device not in (None, "cpu"):
        if by_name:
            raise ConfigurationError(f"the {name} engine computes on the CPU, not on {wanted.device!r}")
        return []
    if wanted.precision == "float16":
        if by_name:
            raise ConfigurationError(f"the {name} engine does not compute in float16")
        return []
    installed = [each for each in RUNTIMES.values() if each.installed and wanted.engine in ("auto", each.name)]
    if by_name and not installed:
        RUNTIMES[name].load()
    if wanted.precision == "bfloat16":
        installed = [each for each in installed if each.has_bfloat16()]
        if by_name and not installed:
            raise ConfigurationError(f"the {name} engine does not compute in bfloat16 on this processor")
    return installed if by_name or not (installed and wanted.device is None and _has_gpu()) else []


def _exported(runtimes: list[Runtime], root: Path, digest: str, precision: str) -> _Graph | None:
    """The graph in the model's own folder.

    One of int8 that failed its check, or whose sums would saturate on this processor, only where int8 is asked for.
    """
    if precision in ("auto", "int8"):
        for runtime in runtimes:
            found = find_export(root, digest, runtime.name, "int8")
            good = found is not None and found.passed and (found.weight_bits < 8 or sums_bytes_exactly())
            if found is not None and (good or precision == "int8"):
                return _Graph(runtime, found.path, found.precision)
    if precision == "int8":
        names = " or ".join(runtime.name for runtime in runtimes)
        raise ConfigurationError(
            f"{root}: holds no int8 export for {names}; make a folder that does: twinvec export MODEL -o FOLDER "
            f"--engine {runtimes[0].name} --precision int8 --calibrate TEXTS"
        )
    for runtime in runtimes:
        found = find_export(root, digest, runtime.name, "float32")
        if found is not None:
            return _Graph(runtime, found.path, _of_float32(precision))
    return None


def _of_float32(precision: str) -> str:
    """What a graph of float32 is computed in."""
    return "bfloat16" if precision == "bfloat16" else "float32"


def _bytes_of_weights(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.safetensors"))


def _has_gpu() -> bool:
    """Asks torch only where there is a driver: importing torch takes seconds."""
    if shutil.which("nvidia-smi") is None and not Path("/proc/driver/nvidia/version").exists():
        return False
    import torch

    return torch.cuda.is_available()
