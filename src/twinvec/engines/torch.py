"""The torch engine: every supported backbone, through transformers, on any torch device.

The backbone is transformers' own; pooling, Dense and Normalize follow here. Weights come from safetensors only.
Computation is float32 unless asked otherwise.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from twinvec.engines.base import Batch, FloatArray
from twinvec.errors import ConfigurationError, EngineError, ModelIntegrityError, TwinvecError
from twinvec.pooling import pool
from twinvec.spec import Dense, ModelSpec

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TorchEngine:
    """Backbone, pooling and head of a model folder.

    One batch at a time, on all cores or one GPU; a batch that does not fit the GPU's memory is halved.

    Raises:
        ConfigurationError: a device or precision that torch does not have here.
        ModelIntegrityError: weights that do not fit the configuration.
    """

    workers = 1

    def __init__(self, spec: ModelSpec, *, device: str | None = None, precision: str = "float32") -> None:
        self._spec = spec
        self._device = _device(device)
        self._dtype = _dtype(precision)
        self.name = f"torch, {self._device}, {precision}"
        self.token_budget = _token_budget(self._device)
        self._backbone = load_backbone(spec.folder).to(self._device, self._dtype).eval()
        self._head = _with_truncation(load_head(spec), spec).to(self._device).eval()

    def vectors(self, batch: Batch) -> FloatArray:
        def compute(part: Batch) -> FloatArray:
            states_BTD, mask_BT = self._run(part)
            pooled_BD = pool(states_BTD.float(), mask_BT, self._spec.pooling, part.prompt_tokens)
            return _to_numpy(self._head(pooled_BD))

        with torch.inference_mode(), _engine_errors(self.name):
            return _halving(compute, batch)

    def states(self, batch: Batch) -> FloatArray:
        with torch.inference_mode(), _engine_errors(self.name):
            return _halving(lambda part: _to_numpy(self._run(part)[0].float()), batch)

    def _run(self, batch: Batch) -> tuple[Tensor, Tensor]:
        ids_BT = torch.from_numpy(batch.ids_BT).to(self._device)
        mask_BT = torch.from_numpy(batch.mask_BT).to(self._device)
        attended_BT = mask_BT.clone()
        attended_BT[:, 0] = 1  # a row without any token would be all padding, and attention over nothing is NaN
        return self._backbone(input_ids=ids_BT, attention_mask=attended_BT).last_hidden_state, mask_BT


class TorchScoringEngine:
    """A sequence-classification folder: pairs in, logits out."""

    workers = 1

    def __init__(self, folder: Path, *, device: str | None = None, precision: str = "float32") -> None:
        self._device = _device(device)
        self.name = f"torch, {self._device}, {precision}"
        self.token_budget = _token_budget(self._device)
        self._model = load_classifier(folder).to(self._device, _dtype(precision)).eval()

    def logits(self, batch: Batch) -> FloatArray:
        with torch.inference_mode(), _engine_errors(self.name):
            return _halving(self._logits, batch)

    def _logits(self, batch: Batch) -> FloatArray:
        inputs = {"input_ids": batch.ids_BT, "attention_mask": batch.mask_BT}
        if batch.types_BT is not None and has_segments(self._model):
            inputs["token_type_ids"] = batch.types_BT
        tensors = {name: torch.from_numpy(array).to(self._device) for name, array in inputs.items()}
        return _to_numpy(self._model(**tensors).logits.float())


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
    """The backbone of a folder in float32; ``attention``: how it is computed, transformers' choice unless given."""
    from transformers import AutoModel

    return _load(AutoModel, folder, attention)


def load_classifier(folder: Path, attention: str | None = None) -> nn.Module:
    """Backbone and classification head of a cross-encoder's folder in float32."""
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
            ignore_mismatched_sizes=True,  # refused below, by name
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
    """Dense and Normalize, in order."""
    return nn.Sequential(*(_load_dense(step) if isinstance(step, Dense) else _L2Normalize() for step in spec.head))


def _with_truncation(head: nn.Sequential, spec: ModelSpec) -> nn.Sequential:
    """Truncated vectors are cut, then normalised again where the model normalises."""
    if spec.truncate_dim is None:
        return head
    return nn.Sequential(head, _Truncate(spec.truncate_dim), *([_L2Normalize()] if spec.normalizes else []))


def _halving(compute: Callable[[Batch], FloatArray], batch: Batch) -> FloatArray:
    """Compute a batch, in halves where the GPU's memory is too small for the whole."""
    try:
        return compute(batch)
    except torch.OutOfMemoryError:
        size = len(batch.ids_BT)
        if size == 1:
            raise
    torch.cuda.empty_cache()
    parts = (batch.rows(0, size // 2), batch.rows(size // 2, size))
    return np.concatenate([_halving(compute, part) for part in parts])


def _token_budget(device: torch.device) -> int:
    return 2048 if device.type == "cpu" else 65536


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


def _device(name: str | None) -> torch.device:
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
    except Exception as error:  # a setting that makes no sense can raise anything
        raise ModelIntegrityError(f"{folder}: cannot be loaded: {type(error).__name__}: {error}") from error


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence the loading bar and the report of pooler weights, which are not used here."""
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
