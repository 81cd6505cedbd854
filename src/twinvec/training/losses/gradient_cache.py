"""Gradient caching (Gao et al. 2021): train on batches that are larger than memory.

A batch has columns of texts, such as anchors and positives. All texts are split into chunks of similar length under a
token budget. The first pass computes the vectors of all chunks for the objective. The second pass computes each chunk
again, with gradients. Dropout is replayed bit for bit, so the gradients equal those of a single pass. The first chunks,
up to ``kept_tokens`` tokens, keep their graph and need no second pass.
Shapes: M texts of all columns together, T tokens, D dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import get_device_states, set_device_states

from twinvec.engines.torch import quick_attention
from twinvec.tokens.batching import token_budget_batches
from twinvec.training.losses.cpu_ops import FastCpuOps

Features = dict[str, Any]
"""Output of a model's ``preprocess`` for one column of texts: tensors such as ``input_ids`` and ``attention_mask``,
each (rows, T), and settings that are not tensors."""


def embed_in_two_passes(
    model: nn.Module,
    columns: Sequence[Features],
    objective: Callable[[Tensor], Tensor],
    *,
    token_budget: int,
    kept_tokens: int,
) -> Tensor:
    """Return ``objective`` of the vectors of all columns, (M, D); its ``backward`` adds the model's gradients.

    ``model`` maps features to a dict with ``sentence_embedding``, (rows, D). ``token_budget`` limits the padded size of
    a chunk, and ``kept_tokens`` the padded tokens whose activations are held until the backward pass.
    """
    chunks = _Chunks(model, columns, token_budget)
    vectors = list(chunks.first_pass(kept_tokens if torch.is_grad_enabled() else 0))
    kept = {index: each for index, each in enumerate(vectors) if each.requires_grad}
    vectors_MD = torch.cat([each.detach() for each in vectors])[chunks.positions()]
    if not torch.is_grad_enabled():
        return objective(vectors_MD)
    vectors_MD.requires_grad_()
    value = objective(vectors_MD)
    loss = value.detach().requires_grad_()

    def backward(weight: Tensor) -> None:
        value.backward(weight)  # type: ignore[no-untyped-call]
        assert vectors_MD.grad is not None
        chunks.second_pass(vectors_MD.grad, kept)

    loss.register_hook(backward)  # type: ignore[no-untyped-call]
    return loss


class _Chunks:
    """The texts of all columns in chunks of similar length, with the random state of each chunk's first pass."""

    def __init__(self, model: nn.Module, columns: Sequence[Features], token_budget: int) -> None:
        self._model = model
        self._features = _concatenate(columns)
        mask_MT = self._features["attention_mask"]
        lengths_M = mask_MT.sum(1).clamp(min=1).cpu().numpy()
        self._device = mask_MT.device
        self._chunks: list[Tensor] = []
        self._widths: list[int] = []
        self._settings: list[dict[str, Any]] = []
        for settings, rows in _groups(columns):
            for part in token_budget_batches(lengths_M[rows], token_budget):
                self._chunks.append(rows[part].to(self._device))
                self._widths.append(int(lengths_M[rows[part]].max()))
                self._settings.append(settings)
        # gradient checkpointing computes the forward pass twice; with fast operations, the two would differ
        self._checkpoints = any(getattr(module, "gradient_checkpointing", False) for module in model.modules())
        self._states: list[tuple[Tensor, list[int], list[Tensor]] | None] = []
        self._autocast = torch.get_autocast_dtype(self._device.type)
        self._autocasts = torch.is_autocast_enabled(self._device.type)

    def positions(self) -> Tensor:
        """Return the index of each text in the concatenated chunks: (M,)."""
        return torch.cat(self._chunks).argsort()

    def first_pass(self, kept_tokens: int) -> Iterator[Tensor]:
        """Yield each chunk's vectors; the first chunks, up to ``kept_tokens`` tokens, keep their graph."""
        spent = 0
        for index, rows in enumerate(self._chunks):
            spent += len(rows) * self._widths[index]
            # with several processes the last chunk needs a second pass, whose backward averages the gradients
            keep = spent <= kept_tokens and not (self._distributed and index == len(self._chunks) - 1)
            self._states.append(
                None if keep else (torch.get_rng_state(), *get_device_states(self._features["input_ids"]))
            )
            with torch.set_grad_enabled(keep), self._unsynchronised():
                vectors = self._run(index)
            yield vectors

    def second_pass(self, grads_MD: Tensor, kept: dict[int, Tensor]) -> None:
        """Propagate the gradients of all vectors to the parameters; ``kept`` has the vectors that kept their graph."""
        if kept:
            with self._unsynchronised():
                torch.autograd.backward(list(kept.values()), [grads_MD[self._chunks[index]] for index in kept])
        again = [(index, state) for index, state in enumerate(self._states) if state is not None]
        for index, state in again:
            last = index == again[-1][0]
            with nullcontext() if last else self._unsynchronised(), _replayed(*state):
                with torch.enable_grad(), torch.autocast(self._device.type, self._autocast, self._autocasts):
                    vectors = self._run(index)
                torch.autograd.backward(vectors, grads_MD[self._chunks[index]])

    def _run(self, index: int) -> Tensor:
        rows, width = self._chunks[index], self._widths[index]
        cut = {name: values[rows, :width] for name, values in self._features.items()}
        with self._fast_operations():
            vectors: Tensor = self._model({**self._settings[index], **cut})["sentence_embedding"]
        return vectors.to(torch.promote_types(vectors.dtype, torch.float32))

    def _fast_operations(self) -> AbstractContextManager[Any]:
        if self._checkpoints:
            return nullcontext()
        if self._device.type == "cpu":
            return FastCpuOps(sparse=not self._distributed)
        return quick_attention(self._device)

    @property
    def _distributed(self) -> bool:
        return isinstance(self._model, DistributedDataParallel)

    def _unsynchronised(self) -> AbstractContextManager[None]:
        """Keep DistributedDataParallel from averaging the gradients before the last chunk of a step."""
        return self._model.no_sync() if isinstance(self._model, DistributedDataParallel) else nullcontext()


@contextmanager
def _replayed(cpu_state: Tensor, devices: list[int], device_states: list[Tensor]) -> Iterator[None]:
    """Inside the block, use the random state that a chunk's first pass started from."""
    with torch.random.fork_rng(devices=devices):
        torch.set_rng_state(cpu_state)
        set_device_states(devices, device_states)
        yield


def _groups(columns: Sequence[Features]) -> list[tuple[dict[str, Any], Tensor]]:
    """Group columns with equal settings, whose texts may share chunks; return settings and text numbers of each."""
    groups: list[tuple[dict[str, Any], list[Tensor]]] = []
    sizes = [len(column["input_ids"]) for column in columns]
    for column, numbers in zip(columns, torch.split(torch.arange(sum(sizes)), sizes), strict=True):
        settings = {name: value for name, value in column.items() if not isinstance(value, Tensor)}
        same = next((rows for known, rows in groups if known == settings), None)
        if same is not None:
            same.append(numbers)
        elif len(numbers):
            groups.append((settings, [numbers]))
    return [(settings, torch.cat(rows)) for settings, rows in groups]


def _concatenate(columns: Sequence[Features]) -> dict[str, Tensor]:
    """Return the features of all texts, padded on the right (as an ``Encoder`` pads) to the widest column."""
    width = max(column["input_ids"].shape[1] for column in columns)

    def padded(column: Features, name: str) -> Tensor:
        tokens_first_MT = column["attention_mask"].argsort(dim=1, descending=True, stable=True)
        values_MT = column[name].gather(1, tokens_first_MT)
        # zeros suit every feature: the mask is 0 there too, so the model ignores these tokens
        return functional.pad(values_MT, (0, width - values_MT.shape[1]))

    names = [name for name, value in columns[0].items() if isinstance(value, Tensor)]
    return {name: torch.cat([padded(column, name) for column in columns]) for name in names}
