"""The torch engine: every supported backbone on any torch device.

transformers provides the backbone; pooling, Dense and Normalize follow here. Weights come from safetensors only.
The default precision is float32. In half precision on a GPU, supported backbones compute without padding
(``engines.unpadded``).
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from twinvec.arrays import FloatArray
from twinvec.engines.pooling import pool
from twinvec.engines.unpadded import ComputedStates, Unpadded, without_padding
from twinvec.errors import ConfigurationError, EngineError, ModelIntegrityError
from twinvec.interrupts import raise_of_handler
from twinvec.models.encoder_spec import Dense, ModelSpec
from twinvec.support.cpu import available_cores
from twinvec.tokens.batching import Batch

_CPU_TOKENS = 2048
_GPU_TOKENS = 262144
_FULL_BUDGET_MEMORY = 64 * 2**30  # bytes; a smaller GPU gets a smaller token budget
_OTHER_TOKENS = 65536

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class _Torch:
    """Common part of both engines: the device, and computing batches on it.

    All cores of a CPU compute a batch. A GPU computes one batch at a time: it waits for Python to launch its kernels,
    which two threads do more slowly than one. A fork of a process that has computed on the CPU computes on one
    core, because torch would wait for ever for the threads that the fork lacks.
    """

    workers = 1
    _process: ClassVar[int | None] = None  # the first process that computes on the CPU

    def __init__(self, device: str | None, precision: str) -> None:
        self._device = torch_device(device)
        if precision not in _DTYPES:
            raise ConfigurationError(f"the torch engine computes in {', '.join(_DTYPES)}, not in {precision!r}")
        self._dtype = _DTYPES[precision]
        self._is_gpu = self._device.type == "cuda"
        self._halving = _Halving()
        self.name = f"torch, {self._device}, {precision}"
        self.token_budget = _token_budget(self._device)
        if self._device.type == "cpu":
            limit_threads()

    def _compute(self, compute: Callable[[Batch], Tensor], batch: Batch) -> FloatArray:
        with self._computing():
            return self._halving(lambda part: compute(part).float().cpu().numpy(), batch)

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        """Run the block without gradients; errors of torch become EngineError."""
        if self._device.type == "cpu":
            process = os.getpid()
            _Torch._process = _Torch._process or process
            if process != _Torch._process:
                torch.set_num_threads(1)
        try:
            with torch.inference_mode(), _one_batch(self._device), quick_attention(self._device):
                yield
        except (RuntimeError, IndexError) as error:
            raise EngineError(f"engine {self.name}: {error}") from error

    def _without_padding(self, backbone: nn.Module) -> Unpadded | None:
        """Make a backbone compute without padding if it can; only in half precision on a GPU, where it is faster."""
        if not self._is_gpu or self._dtype == torch.float32:
            return None
        with self._computing():
            return without_padding(backbone, self._send)

    def _send(self, array: npt.NDArray[Any]) -> Tensor:
        """Copy an array to the device; a copy to a GPU may end after the return."""
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self._device, non_blocking=True) if self._is_gpu else tensor.to(self._device)


class TorchEngine(_Torch):
    """Backbone, pooling and head of a model folder.

    Building it raises ConfigurationError if torch lacks the device or the precision, and ModelIntegrityError if the
    weights do not fit the configuration.
    """

    def __init__(self, spec: ModelSpec, *, device: str | None = None, precision: str = "float32") -> None:
        super().__init__(device, precision)
        self._spec = spec
        self._backbone = load_backbone(spec.folder).to(self._device, self._dtype).eval()
        self._head = load_head(spec).to(self._device).eval()
        self._unpadded = self._without_padding(self._backbone)

    def vectors(self, batch: Batch) -> FloatArray:
        return self._compute(self._vectors, batch)

    def states(self, batch: Batch) -> FloatArray:
        return self._compute(self._states, batch)

    def _vectors(self, batch: Batch) -> Tensor:
        mask_BT, spec = self._send(batch.mask_BT), self._spec
        vectors_BD: Tensor = self._head(pool(self._states(batch).float(), mask_BT, spec.pooling, batch.prompt_tokens))
        if spec.truncate_dim is None:
            return vectors_BD
        truncated_BD = vectors_BD[:, : spec.truncate_dim]
        return nn.functional.normalize(truncated_BD, dim=-1) if spec.normalizes else truncated_BD

    def _states(self, batch: Batch) -> Tensor:
        attended_BT = batch.mask_BT.copy()
        attended_BT[:, 0] = 1  # a row of padding only would have no token to attend to, which gives NaN
        if self._unpadded is not None:
            return self._unpadded.states(batch.ids_BT, attended_BT)
        output = self._backbone(input_ids=self._send(batch.ids_BT), attention_mask=self._send(attended_BT))
        states_BTD: Tensor = output.last_hidden_state
        return states_BTD


class TorchScoringEngine(_Torch):
    """A sequence-classification folder: pairs in, logits out."""

    def __init__(self, folder: Path, *, device: str | None = None, precision: str = "float32") -> None:
        super().__init__(device, precision)
        self._model = load_backbone(folder, classifier=True).to(self._device, self._dtype).eval()
        model: Any = self._model
        backbone, name = model.base_model, model.base_model_prefix
        self._unpadded = self._without_padding(backbone)
        if self._unpadded is not None:
            setattr(model, name, ComputedStates(backbone))

    def logits(self, batch: Batch) -> FloatArray:
        return self._compute(self._logits, batch)

    def _logits(self, batch: Batch) -> Tensor:
        types_BT = batch.types_BT if has_segments(self._model) else None
        inputs = {"attention_mask": self._send(batch.mask_BT)}
        if self._unpadded is not None:
            inputs["inputs_embeds"] = self._unpadded.states(batch.ids_BT, batch.mask_BT, types_BT)
        else:
            inputs["input_ids"] = self._send(batch.ids_BT)
            if types_BT is not None:
                inputs["token_type_ids"] = self._send(types_BT)
        logits: Tensor = self._model(**inputs).logits
        return logits


class _WithoutCudnn:
    """A ``with`` block that switches cuDNN's attention off for the whole process while any thread is in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = False

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._before = bool(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
                torch.backends.cuda.enable_cudnn_sdp(False)
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                torch.backends.cuda.enable_cudnn_sdp(self._before)


_without_cudnn = _WithoutCudnn()
_locks: dict[str, threading.Lock] = {}


def _begin_anew() -> None:
    """In a fork, drop the locks that other threads of the parent process may have held."""
    _locks.clear()
    _without_cudnn.__init__()  # type: ignore[misc]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def quick_attention(device: torch.device) -> AbstractContextManager[None]:
    """Run the block without cuDNN's attention on a GPU; other threads do without it, too, until the block ends.

    cuDNN plans each shape of batch anew in each thread, which takes about 0.1 s, and batches of texts have many shapes.
    torch's other attentions take any shape.
    """
    return _without_cudnn if device.type == "cuda" else contextlib.nullcontext()


def _one_batch(device: torch.device) -> AbstractContextManager[Any]:
    """Run the block while no other batch is computed on the GPU; on a CPU, batches need not wait."""
    if device.type == "cpu":
        return contextlib.nullcontext()
    return _locks.setdefault(f"{device.type}:{device.index or 0}", threading.Lock())


def _token_budget(device: torch.device) -> int:
    """Return the token budget; for a GPU, it is proportional to the memory, up to 262,144 tokens (64 GiB or more).

    A large GPU computes a small batch sooner than Python launches the next.
    """
    if device.type == "cpu":
        return _CPU_TOKENS
    if device.type != "cuda":
        return _OTHER_TOKENS
    memory: int = torch.cuda.get_device_properties(device).total_memory
    return min(_GPU_TOKENS, _GPU_TOKENS * memory // _FULL_BUDGET_MEMORY)


class _L2Normalize(nn.Module):
    def forward(self, vectors_BD: Tensor) -> Tensor:
        return nn.functional.normalize(vectors_BD, p=2, dim=-1)


def has_segments(model: nn.Module) -> bool:
    """Whether the model marks the two texts of a pair by segment ids."""
    return bool(model.config.model_type == "bert")  # type: ignore[union-attr]


def load_backbone(folder: Path, attention: str | None = None, *, classifier: bool = False) -> nn.Module:
    """Load the backbone of a folder in float32, or with ``classifier`` the backbone and its classification head.

    ``attention`` names an implementation (default: transformers'). Raise ModelIntegrityError if the weights do not fit.
    """
    from transformers import AutoModel, AutoModelForSequenceClassification

    kind: Any = AutoModelForSequenceClassification if classifier else AutoModel
    try:
        with quiet_transformers():
            model, info = kind.from_pretrained(
                folder,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # mismatches are refused below, with the tensor's name
                attn_implementation=attention,
            )
    except Exception as error:  # an impossible setting can raise any error
        raise_of_handler(error)
        raise ModelIntegrityError(f"{folder}: cannot be loaded: {type(error).__name__}: {error}") from error
    weights = folder / "model.safetensors"
    for name, found, expected in info.get("mismatched_keys", ()):
        raise ModelIntegrityError(f"{weights}: {name} has shape {tuple(found)}, expected {tuple(expected)}")
    missing = sorted(key for key in info.get("missing_keys", ()) if "pooler" not in key)
    if missing:
        raise ModelIntegrityError(f"{weights}: lacks {len(missing)} tensors of the model, {missing[0]} among them")
    loaded: nn.Module = model
    return loaded


def load_head(spec: ModelSpec) -> nn.Sequential:
    """Load the steps after pooling, Dense and Normalize, in order."""
    return nn.Sequential(*(_load_dense(step) if isinstance(step, Dense) else _L2Normalize() for step in spec.head))


class _Halving:
    """Computes batches; halves a batch that exceeds the GPU's memory, and then all batches of at least that size."""

    def __init__(self) -> None:
        self._too_large = math.inf  # padded tokens of the last batch that did not fit

    def __call__(self, compute: Callable[[Batch], FloatArray], batch: Batch) -> FloatArray:
        texts, tokens = len(batch.ids_BT), batch.ids_BT.size
        if texts == 1 or tokens < self._too_large:
            try:
                return compute(batch)
            except torch.OutOfMemoryError:
                if texts == 1:
                    raise
            self._too_large = tokens
            torch.cuda.empty_cache()
        parts = (batch.rows(0, texts // 2), batch.rows(texts // 2, texts))
        return np.concatenate([self(compute, part) for part in parts])


def _load_dense(step: Dense) -> nn.Module:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = step.folder / "model.safetensors"
    linear = nn.Linear(step.in_features, step.out_features, bias=step.bias)
    try:
        tensors = load_file(path)
        linear.load_state_dict({name.removeprefix("linear."): value.float() for name, value in tensors.items()})
    except (OSError, SafetensorError, RuntimeError) as error:
        raise ModelIntegrityError(f"{path}: {error}") from error
    return nn.Sequential(linear, getattr(nn, step.activation)())


def limit_threads() -> None:
    """Let torch compute with at most the cores that this process may use, such as the share of a container."""
    torch.set_num_threads(min(torch.get_num_threads(), available_cores()))


def torch_device(name: str | None) -> torch.device:
    """Return the named device (default: a GPU if torch has one), or raise ConfigurationError if torch lacks it."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = named_device(name)
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise _unusable(name, error) from error
    return device


def named_device(name: str) -> torch.device:
    """Return a torch device, which this machine may lack; raise ConfigurationError if torch does not know the name."""
    try:
        return torch.device(name)
    except RuntimeError as error:
        raise _unusable(name, error) from error


def _unusable(name: str, error: Exception) -> ConfigurationError:
    """Return the error for a device, with the first sentence of torch's error, which can be very long."""
    return ConfigurationError(f"device {name!r} cannot be used: {str(error).splitlines()[0].partition('. ')[0]}")


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' loading bar and its report of unused pooler weights."""
    from transformers.utils import logging as library_logging

    level, bars = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity(logging.ERROR)
    library_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        library_logging.set_verbosity(level)
        if bars:
            library_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
