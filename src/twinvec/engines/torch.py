"""The torch engine: every supported backbone on any torch device.

transformers provides the backbone; pooling, Dense and Normalize follow here. Weights come from safetensors only.
The default precision is float32. In half precision on a GPU, ``engines.unpadded`` computes supported backbones.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from twinvec.arrays import FloatArray
from twinvec.engines.base import GPU_STREAMS
from twinvec.engines.pooling import pool
from twinvec.engines.unpadded import without_padding
from twinvec.errors import ConfigurationError, EngineError, ModelIntegrityError, TwinvecError
from twinvec.models.encoder_spec import Dense, ModelSpec
from twinvec.support.cpu import available_cores
from twinvec.tokens.batching import Batch

_CPU_TOKENS = 2048
_GPU_TOKENS = 65536
_FULL_BUDGET_MEMORY = 16 * 2**30  # bytes; a smaller GPU gets a smaller token budget

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TorchEngine:
    """Backbone, pooling and head of a model folder.

    It computes one batch on all cores, or two batches at once on a GPU. Building it raises ConfigurationError if torch
    lacks the device or the precision, and ModelIntegrityError if the weights do not fit the configuration.
    """

    def __init__(self, spec: ModelSpec, *, device: str | None = None, precision: str = "float32") -> None:
        self._spec = spec
        self._device = _Device(device)
        self._dtype = _dtype(precision)
        self._halving = _Halving()
        self.name = f"torch, {self._device.name}, {precision}"
        self.token_budget, self.workers = self._device.token_budget, self._device.workers
        self._backbone = load_backbone(spec.folder).to(self._device.torch, self._dtype).eval()
        self._head = _with_truncation(load_head(spec), spec).to(self._device.torch).eval()
        self._unpadded = None
        if self._device.is_gpu and precision != "float32":
            with self._computing():
                self._unpadded = without_padding(self._backbone, self._device.send)

    def vectors(self, batch: Batch) -> FloatArray:
        def compute(part: Batch) -> FloatArray:
            states_BTD, mask_BT = self._run(part)
            pooled_BD = pool(states_BTD.float(), mask_BT, self._spec.pooling, part.prompt_tokens)
            return _to_numpy(self._head(pooled_BD))

        with self._computing():
            return self._halving(compute, batch)

    def states(self, batch: Batch) -> FloatArray:
        with self._computing():
            return self._halving(lambda part: _to_numpy(self._run(part)[0].float()), batch)

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        send = self._device.send
        attended_BT = batch.mask_BT.copy()
        attended_BT[:, 0] = 1  # a row without tokens would be all padding, and attention over nothing is NaN
        mask_BT = send(batch.mask_BT)
        if self._unpadded is not None:
            return self._unpadded.states(batch.ids_BT, attended_BT), mask_BT
        output = self._backbone(input_ids=send(batch.ids_BT), attention_mask=send(attended_BT))
        return output.last_hidden_state, mask_BT

    @contextlib.contextmanager
    def _computing(self) -> Iterator[None]:
        with torch.inference_mode(), _engine_errors(self.name), self._device.stream():
            yield


class TorchScoringEngine:
    """A sequence-classification folder: pairs in, logits out."""

    def __init__(self, folder: Path, *, device: str | None = None, precision: str = "float32") -> None:
        self._device = _Device(device)
        self._halving = _Halving()
        self.name = f"torch, {self._device.name}, {precision}"
        self.token_budget, self.workers = self._device.token_budget, self._device.workers
        self._model = load_classifier(folder).to(self._device.torch, _dtype(precision)).eval()

    def logits(self, batch: Batch) -> FloatArray:
        with torch.inference_mode(), _engine_errors(self.name), self._device.stream():
            return self._halving(self._logits, batch)

    def _logits(self, batch: Batch) -> FloatArray:
        inputs = {"input_ids": batch.ids_BT, "attention_mask": batch.mask_BT}
        if batch.types_BT is not None and has_segments(self._model):
            inputs["token_type_ids"] = batch.types_BT
        tensors = {name: self._device.send(array) for name, array in inputs.items()}
        return _to_numpy(self._model(**tensors).logits.float())


class _Device:
    """A device with its token budget and its streams.

    A GPU has several streams: while one computes, the thread of another sends its batch or fetches its result.
    """

    def __init__(self, name: str | None) -> None:
        self.torch = torch_device(name)
        self.name = str(self.torch)
        self.is_gpu = self.torch.type == "cuda"
        self.token_budget = _token_budget(self.torch)
        self.workers = GPU_STREAMS if self.is_gpu else 1
        if self.torch.type == "cpu":
            torch.set_num_threads(min(torch.get_num_threads(), available_cores()))
        self._streams: SimpleQueue[torch.cuda.Stream] = SimpleQueue()
        for _ in range(self.workers if self.is_gpu else 0):
            self._streams.put(torch.cuda.Stream(self.torch))  # type: ignore[no-untyped-call]

    def send(self, array: npt.NDArray[Any]) -> Tensor:
        """Copy an array to the device; the copy may end later."""
        tensor = torch.from_numpy(array)
        return tensor.pin_memory().to(self.torch, non_blocking=True) if self.is_gpu else tensor.to(self.torch)

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Compute the block on a free stream; the result must be fetched inside the block."""
        if not self.is_gpu:
            yield
            return
        stream = self._streams.get()
        stream.wait_stream(torch.cuda.default_stream(self.torch))  # it copies the weights
        try:
            with torch.cuda.stream(stream):
                yield
        finally:
            self._streams.put(stream)


def _token_budget(device: torch.device) -> int:
    """Return the token budget; a GPU's is proportional to its memory, at most 65,536 tokens (from 16 GiB on)."""
    if device.type == "cpu":
        return _CPU_TOKENS
    memory = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else _FULL_BUDGET_MEMORY
    return min(_GPU_TOKENS, _GPU_TOKENS * memory // _FULL_BUDGET_MEMORY)


class _L2Normalize(nn.Module):
    def forward(self, vectors_BD: Tensor) -> Tensor:
        return nn.functional.normalize(vectors_BD, p=2, dim=-1)


class _Truncate(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, vectors_BD: Tensor) -> Tensor:
        return vectors_BD[:, : self.dim]


def load_backbone(folder: Path, attention: str | None = None) -> nn.Module:
    """Load the backbone of a folder in float32; ``attention`` names an implementation (default: transformers')."""
    from transformers import AutoModel

    return _load(AutoModel, folder, attention)


def load_classifier(folder: Path, attention: str | None = None) -> nn.Module:
    """Load the backbone and the classification head of a cross-encoder's folder; see ``load_backbone``."""
    from transformers import AutoModelForSequenceClassification

    return _load(AutoModelForSequenceClassification, folder, attention)


def has_segments(model: nn.Module) -> bool:
    """Whether the model tells the two texts of a pair apart by segment ids."""
    return bool(model.config.model_type == "bert")  # type: ignore[union-attr]


def _load(kind: Any, folder: Path, attention: str | None) -> nn.Module:
    with quiet_transformers(), _load_errors(folder):
        model, info = kind.from_pretrained(
            folder,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
            ignore_mismatched_sizes=True,  # refused below, with the tensor's name
            attn_implementation=attention,
        )
    _refuse_misfits(info, folder)
    loaded: nn.Module = model
    return loaded


def _refuse_misfits(info: dict[str, Any], folder: Path) -> None:
    for name, found, expected in info.get("mismatched_keys", ()):
        raise ModelIntegrityError(
            f"{folder / 'model.safetensors'}: {name} has shape {tuple(found)}, expected {tuple(expected)}"
        )
    missing = sorted(key for key in info.get("missing_keys", ()) if "pooler" not in key)
    if missing:
        raise ModelIntegrityError(
            f"{folder / 'model.safetensors'}: lacks {len(missing)} tensors of the model, {missing[0]} among them"
        )


def load_head(spec: ModelSpec) -> nn.Sequential:
    """Load the steps after pooling, Dense and Normalize, in order."""
    return nn.Sequential(*(_load_dense(step) if isinstance(step, Dense) else _L2Normalize() for step in spec.head))


def _with_truncation(head: nn.Sequential, spec: ModelSpec) -> nn.Sequential:
    """Append the truncation of dimensions, and a new normalisation if the model normalises."""
    if spec.truncate_dim is None:
        return head
    return nn.Sequential(head, _Truncate(spec.truncate_dim), *([_L2Normalize()] if spec.normalizes else []))


class _Halving:
    """Compute batches; halve a batch that exceeds the GPU's memory, and from then on all of that size."""

    def __init__(self) -> None:
        self._too_large = math.inf  # tokens, padded

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
    activation: nn.Module = getattr(nn, step.activation)()
    return nn.Sequential(linear, activation)


def torch_device(name: str | None) -> torch.device:
    """Return the named device (default: a GPU if torch has one), or raise ConfigurationError if torch lacks it."""
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigurationError(f"device {name!r} cannot be used: {str(error).splitlines()[0]}") from error
    return device


def _dtype(precision: str) -> torch.dtype:
    if precision not in _DTYPES:
        raise ConfigurationError(f"the torch engine computes in {', '.join(_DTYPES)}, not in {precision!r}")
    return _DTYPES[precision]


def _to_numpy(tensor: Tensor) -> FloatArray:
    array: FloatArray = tensor.cpu().numpy().astype(np.float32, copy=False)
    return array


@contextlib.contextmanager
def _engine_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, IndexError) as error:
        raise EngineError(f"engine {name}: {error}") from error


@contextlib.contextmanager
def _load_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except TwinvecError:
        raise
    except Exception as error:  # an impossible setting can raise any error
        raise ModelIntegrityError(f"{folder}: cannot be loaded: {type(error).__name__}: {error}") from error


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
