"""Which engine computes: the one asked for, or the fastest that is exact.

``auto`` on a CPU takes a graph converted for OpenVINO, once, into the user's cache; torch where OpenVINO is not
installed, on a GPU, in half precision, for a model so small that converting it costs more than it saves, and where the
converted graph is not exact.
"""

from __future__ import annotations

import importlib.util
import logging
import shutil
from pathlib import Path

from twinvec.engines.base import Engine
from twinvec.errors import ConfigurationError, EngineError
from twinvec.graph_cache import EXACT, CachedGraph, openvino_graph
from twinvec.spec import ModelSpec
from twinvec.tokenizer import TextTokenizer

logger = logging.getLogger(__name__)

_WORTH_CONVERTING = 16 * 1024 * 1024  # bytes of weights


def load_engine(
    *,
    engine: str,
    spec: ModelSpec,
    tokenizer: TextTokenizer,
    network: str,
    device: str | None,
    precision: str,
) -> Engine:
    """Load the engine for a model.

    Args:
        engine: "auto", "torch" or "openvino".
        spec: The model's settings.
        tokenizer: Its tokenizer.
        network: Its ``network_digest``.
        device: As torch names it; None for a GPU where there is one.
        precision: "auto", "float32", "bfloat16" or "float16".

    Raises:
        ConfigurationError: engine, device and precision do not go together.
        MissingExtraError: the engine's package is not installed.
        EngineError: the model cannot be converted, or is not exact afterwards.
    """
    if engine == "openvino":
        return _openvino(spec, tokenizer, network, device, precision)
    if engine == "auto" and device in (None, "cpu") and precision in ("auto", "float32"):
        found = _exact_openvino(spec, tokenizer, network, device)
        if found is not None:
            return found
    from twinvec.engines.torch import TorchEngine

    return TorchEngine(spec, device=device, precision="float32" if precision == "auto" else precision)


def _openvino(spec: ModelSpec, tokenizer: TextTokenizer, network: str, device: str | None, precision: str) -> Engine:
    if device not in (None, "cpu"):
        raise ConfigurationError(f"the openvino engine computes on the CPU, not on {device!r}")
    if precision not in ("auto", "float32"):
        raise ConfigurationError(f"the openvino engine computes in float32, not in {precision!r}")
    from twinvec.engines.openvino import import_openvino

    import_openvino()
    graph = openvino_graph(spec, tokenizer, network)
    if not graph.exact:
        raise EngineError(f"{graph.path}: not exact: worst cosine {graph.worst_cosine:.6f}, expected {EXACT}")
    return _load(graph, spec)


def _exact_openvino(spec: ModelSpec, tokenizer: TextTokenizer, network: str, device: str | None) -> Engine | None:
    """The OpenVINO engine, None where torch is the better one."""
    if importlib.util.find_spec("openvino") is None or (device is None and _has_gpu()):
        return None
    if sum(path.stat().st_size for path in spec.folder.glob("*.safetensors")) < _WORTH_CONVERTING:
        return None
    try:
        graph = openvino_graph(spec, tokenizer, network)
    except EngineError as error:
        logger.warning("%s; torch computes instead", error)
        return None
    return _load(graph, spec) if graph.exact else None


def _load(graph: CachedGraph, spec: ModelSpec) -> Engine:
    from twinvec.engines.openvino import OpenVinoEngine

    return OpenVinoEngine(graph.path, dim=spec.truncate_dim, normalizes=spec.normalizes)


def _has_gpu() -> bool:
    """Asks torch only where there is a driver: importing torch takes seconds."""
    if shutil.which("nvidia-smi") is None and not Path("/proc/driver/nvidia/version").exists():
        return False
    import torch

    return torch.cuda.is_available()
