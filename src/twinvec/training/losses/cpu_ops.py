"""Faster versions of torch operations that are slow when training on a CPU; the mathematics is the same.

- Dropout, alone and in attention. torch draws 64 random bits for each activation, in one thread. This version draws
  16 bits. The bits come from torch's generator, so the masks of a chunk can be replayed.
- Embeddings. torch adds a gradient to every row of the table. This version adds it only to the rows looked up.

Shapes: B texts, H heads, Q queries, K keys, D dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

_VALUES = 2**16


class FastCpuOps(TorchFunctionMode):
    """While active, replaces dropout and attention of ``torch.nn.functional`` by the functions of this module.

    With ``sparse``, it replaces the embedding too, whose gradients are then sparse. DistributedDataParallel needs dense
    gradients, so ``sparse`` must be False there.
    """

    def __init__(self, *, sparse: bool) -> None:
        super().__init__()
        self._instead: dict[Any, Callable[..., Any]] = {
            functional.dropout: dropout,
            functional.scaled_dot_product_attention: attention,
        }
        if sparse:
            self._instead[functional.embedding] = embedding

    def __torch_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return self._instead.get(func, func)(*args, **(kwargs or {}))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout (Srivastava et al. 2014); the probability ``p`` is rounded to a multiple of 1/65,536."""
    dropped = round(p * _VALUES) if 0 <= p <= 1 else 0
    if input.device.type != "cpu" or not training or inplace or dropped in (0, _VALUES):
        return functional.dropout(input, p, training, inplace)
    size = input.numel()
    words = torch.empty(-(-size // 4), dtype=torch.int64, device=input.device).random_(-(2**63), None)
    kept = (words.view(torch.int16)[:size] >= dropped - _VALUES // 2).view(input.shape)
    return torch.where(kept, input * (_VALUES / (_VALUES - dropped)), 0.0)


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **options: Any,
) -> Tensor:
    """Attention (Vaswani et al. 2017, equation 1) with dropout while training: (B, H, Q, D)."""
    plain = query.device.type == "cpu" and not is_causal and not options.get("enable_gqa")
    if dropout_p == 0 or not plain:
        return functional.scaled_dot_product_attention(
            query, key, value, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, **options
        )
    scale = options.get("scale")
    scores_BHQK = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if attn_mask is not None:
        least = torch.finfo(scores_BHQK.dtype).min  # finite, since softmax is NaN for a row without any key
        boolean = attn_mask.dtype == torch.bool
        scores_BHQK = (
            scores_BHQK.masked_fill(~attn_mask, least) if boolean else scores_BHQK + attn_mask.clamp(min=least)
        )
    return dropout(scores_BHQK.softmax(-1), dropout_p) @ value


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """torch's ``embedding``, with its signature; the gradient of a large table touches only the rows looked up."""
    learns = torch.is_grad_enabled() and weight.requires_grad and weight.is_leaf
    large = weight.device.type == "cpu" and weight.shape[0] > input.numel()
    if learns and large and max_norm is None and not scale_grad_by_freq and not sparse:
        rows: Tensor = _Lookup.apply(input, weight, padding_idx)  # type: ignore[no-untyped-call]
        return rows
    return functional.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)


class _Lookup(torch.autograd.Function):
    """Looks up rows of a table. Their gradient is sparse, and is added to ``weight.grad``, which begins as zeros."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor:
        ctx.save_for_backward(input, weight)
        ctx.left_out = -1 if padding_idx is None else padding_idx % len(weight)
        return functional.embedding(input, weight)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None]:
        ids, weight = ctx.saved_tensors
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
        [grad_D] = grads
        kept = ids.flatten() != ctx.left_out
        chosen, rows_ND = ids.flatten()[kept], grad_D.reshape(-1, weight.shape[1])[kept]
        return None, torch.sparse_coo_tensor(chosen[None], rows_ND, weight.shape, check_invariants=False), None
