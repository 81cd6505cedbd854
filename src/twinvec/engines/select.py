"""Select the engine: the engine that the user names, or the fastest exact engine.

On a CPU, ``auto`` takes the exported graph in the model's folder: int8 if it passed its check, else float32; OpenVINO
before ONNX Runtime. Without an export, it converts the model for OpenVINO, once, into the user's cache. torch is chosen
for a GPU, for float16, and for bfloat16 if OpenVINO lacks bfloat16. torch also computes if no runtime is installed, if
the model is too small to be worth a conversion, or if its converted graph is not exact. If torch is not installed,
every model is converted, for ONNX Runtime if OpenVINO is not installed either.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twinvec.engines import EngineName, Precision
from twinvec.engines.base import AnyEngine, Engine, ScoringEngine
from twinvec.engines.exports import find_export
from twinvec.engines.graph import GraphEngine
from twinvec.engines.graph_cache import cached_graph
from twinvec.engines.loaded_model import LoadedCrossEncoder, LoadedEncoder, LoadedModel
from twinvec.engines.multi_device import ProcessesEngine
from twinvec.engines.runtimes import RUNTIMES, Runtime, RuntimeName
from twinvec.errors import ConfigurationError, EngineError, MissingExtraError
from twinvec.models.backbone import BackboneSpec
from twinvec.support.checks import check_choice, string
from twinvec.support.cpu import sums_bytes_exactly
from twinvec.support.extras import import_torch

logger = logging.getLogger(__name__)

_USUAL_DEVICES = re.compile(r"(cpu|cuda|hpu|mps|mtia|xla|xpu)(:(0|[1-9]\d?))?")
_WORTH_CONVERTING = 16 * 1024 * 1024  # bytes of weights of the smallest model that is worth converting


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine, device and precision that a user asks for; an unknown name raises ConfigurationError.

    ``device`` is in torch's notation (default: a GPU if torch has one); ``devices`` replaces it if there are several.
    """

    engine: EngineName = "auto"
    device: str | None = None
    precision: Precision = "auto"
    devices: list[str] | None = None

    def __post_init__(self) -> None:
        check_choice(self.engine, EngineName, "engine")
        check_choice(self.precision, Precision, "precision")
        if self.device is not None:
            string(self.device, "device")
        for device in self.devices or (self.device,):
            _check_device_name(device)

    @property
    def torch_precision(self) -> str:
        return "float32" if self.precision == "auto" else self.precision


def load_engine(choice: EngineChoice, model: LoadedEncoder) -> Engine:
    """Load the engine of an encoder.

    Raise ConfigurationError if engine, device and precision do not go together or the folder has no int8 export;
    MissingExtraError if the engine's package is missing; ModelIntegrityError if the export is damaged or of other
    weights; EngineError if the model cannot be converted or its graph is not exact.
    """
    if choice.devices is not None:
        return ProcessesEngine(partial(_load_for_device, load_engine, choice, model), choice.devices)
    spec, graph = model.spec, _select_graph(choice, model)
    if graph is None:
        import_torch(_torch_purpose(choice))
        from twinvec.engines.torch import TorchEngine

        return TorchEngine(spec, device=choice.device, precision=choice.torch_precision)
    return graph(dim=spec.truncate_dim, normalizes=spec.normalizes)


def load_scoring_engine(choice: EngineChoice, model: LoadedCrossEncoder) -> ScoringEngine:
    """Load the engine of a cross-encoder; raises as ``load_engine``."""
    if choice.devices is not None:
        return ProcessesEngine(partial(_load_for_device, load_scoring_engine, choice, model), choice.devices)
    graph = _select_graph(choice, model)
    if graph is None:
        import_torch(_torch_purpose(choice))
        from twinvec.engines.torch import TorchScoringEngine

        return TorchScoringEngine(model.spec.folder, device=choice.device, precision=choice.torch_precision)
    return graph("logits")


def _load_for_device(
    load: Callable[[EngineChoice, Any], AnyEngine], choice: EngineChoice, model: Any, device: str
) -> AnyEngine:
    return load(replace(choice, device=device, devices=None), model)


def _select_graph(choice: EngineChoice, model: LoadedModel[BackboneSpec]) -> partial[GraphEngine] | None:
    """Return the graph to compute, or None if torch computes."""
    runtimes = _runtimes(choice)
    if not runtimes:
        return None
    exported = _exported(runtimes, model, choice.precision)
    if exported is not None:
        return exported
    by_name, torch_computes = choice.engine != "auto", has_torch()
    weights = sum(path.stat().st_size for path in model.spec.folder.glob("*.safetensors"))
    if not by_name and torch_computes and (runtimes[0].name != "openvino" or weights < _WORTH_CONVERTING):
        return None
    tried = runtimes[:1] if torch_computes else runtimes
    for runtime in tried:
        try:
            return _converted(runtime, choice, model)
        except EngineError as error:
            if by_name or (runtime is tried[-1] and not torch_computes):
                raise
            logger.warning("%s; %s computes instead", error, "torch" if torch_computes else "another engine")
    return None


def _converted(runtime: Runtime, choice: EngineChoice, model: LoadedModel[BackboneSpec]) -> partial[GraphEngine]:
    """Return the graph that ``cached_graph`` converts or finds in the user's cache; it raises the same errors."""
    path = cached_graph(runtime.name, model).path
    return partial(GraphEngine, runtime.runner, path, precision=_float32_graph_precision(choice.precision))


def _runtimes(choice: EngineChoice) -> list[Runtime]:
    """Return the runtimes that fit the choice, best first, or an empty list if torch is to compute.

    Raise ConfigurationError if no runtime can compute the choice, and MissingExtraError if its runtime is missing.
    """
    if choice.engine == "torch":
        return []
    by_name = choice.engine != "auto" or choice.precision == "int8"
    name: RuntimeName = "openvino" if choice.engine == "auto" else choice.engine
    if choice.device not in (None, "cpu"):
        if by_name:
            raise ConfigurationError(f"the {name} engine computes on the CPU, not on {choice.device!r}")
        return []
    if choice.precision == "float16":
        if by_name:
            raise ConfigurationError(f"the {name} engine does not compute in float16")
        return []
    installed = [each for each in RUNTIMES.values() if each.installed and choice.engine in ("auto", each.name)]
    if by_name and not installed:
        RUNTIMES[name].load()
    if choice.precision == "bfloat16":
        installed = [each for each in installed if each.has_bfloat16()]
        if by_name and not installed:
            raise ConfigurationError(f"the {name} engine does not compute in bfloat16 on this processor")
    if not installed and not has_torch() and choice.precision != "bfloat16":
        raise MissingExtraError("openvino", "openvino", "no engine is installed; encoding")
    if not by_name and installed and choice.device is None and has_gpu():
        return []
    return installed


def _exported(runtimes: list[Runtime], model: LoadedModel[BackboneSpec], precision: str) -> partial[GraphEngine] | None:
    """Return the graph in the model's folder, if any.

    Only a user who asks for int8 gets an int8 graph that failed its check or whose sums saturate on this processor.
    """
    if precision in ("auto", "int8"):
        for runtime in runtimes:
            found = find_export(model, runtime.name, "int8")
            good = found is not None and found.passed and (found.weight_bits < 8 or sums_bytes_exactly())
            if found is not None and (good or precision == "int8"):
                return partial(GraphEngine, runtime.runner, found.path, precision="int8")
    if precision == "int8":
        names = " or ".join(runtime.name for runtime in runtimes)
        raise ConfigurationError(
            f"{model.root}: holds no int8 export for {names}; make a folder with one: twinvec export MODEL -o FOLDER "
            f"--engine {runtimes[0].name} --precision int8 --calibrate TEXTS"
        )
    for runtime in runtimes:
        found = find_export(model, runtime.name, "float32")
        if found is not None:
            return partial(GraphEngine, runtime.runner, found.path, precision=_float32_graph_precision(precision))
    return None


def _float32_graph_precision(precision: str) -> str:
    return "bfloat16" if precision == "bfloat16" else "float32"


def has_torch() -> bool:
    """Whether torch and transformers, which give the torch engine, are installed."""
    return all(find_spec(package) is not None for package in ("torch", "transformers"))


def _torch_purpose(choice: EngineChoice) -> str:
    """Return the beginning of the error for missing torch: the purpose that needs torch."""
    if choice.engine == "torch":
        return "the torch engine"
    if choice.device not in (None, "cpu"):
        return f"computing on {choice.device!r}"
    return f"computing in {choice.precision}"


def has_gpu() -> bool:
    """Whether torch finds an NVIDIA GPU. Importing torch takes seconds, so it is imported only if there is a driver."""
    if not has_torch():
        return False
    if shutil.which("nvidia-smi") is None and not Path("/proc/driver/nvidia/version").exists():
        return False
    import torch

    return torch.cuda.is_available()


def _check_device_name(device: str | None) -> None:
    """Raise ConfigurationError for a name that is not a device name of torch.

    Only an unusual name is checked by torch itself, because importing torch takes seconds. Another package may have
    added devices to torch.
    """
    if device is None or _USUAL_DEVICES.fullmatch(device):
        return
    if not has_torch():
        raise ConfigurationError(f"device {device!r} cannot be used: expected a name such as cpu, cuda, cuda:1 or mps")
    import_torch(f"computing on {device!r}")
    from twinvec.engines.torch import named_device

    named_device(device)


def check_device(device: str | None) -> None:
    """Raise ConfigurationError for an invalid device name, and for an NVIDIA GPU if torch finds none.

    Adapters call this when they make an object, so that the error comes then and not at the object's first use.
    """
    if device is None:
        return
    _check_device_name(string(device, "device"))
    if device.split(":")[0] == "cuda" and not has_gpu():
        raise ConfigurationError(
            f"device {device!r}: torch finds no NVIDIA GPU on this machine; leave device out (a GPU is then used only "
            "if torch finds one), or write device='cpu'"
        )
