"""Pooling: token states -> one vector for each text, as pure functions of (states, mask); no tokens give zeros.

Definitions follow sentence-transformers' ``Pooling``: Reimers and Gurevych 2019, section 3, for mean, max and CLS;
Muennighoff 2022 (SGPT), equation 2, for the weighted mean.

Legend: B texts, T tokens, D dimension. ``mask_BT`` is 1 for tokens that count. ``positions_BT`` numbers the tokens of a
text from 1, prompt included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def mean(states_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """Mean of the states: (B, D)."""
    weights_BT1 = mask_BT.unsqueeze(-1).to(states_BTD.dtype)
    return (states_BTD * weights_BT1).sum(1) / weights_BT1.sum(1).clamp(min=1)


def mean_sqrt_len(states_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """Sum of the states over the square root of their number: (B, D)."""
    weights_BT1 = mask_BT.unsqueeze(-1).to(states_BTD.dtype)
    return (states_BTD * weights_BT1).sum(1) / weights_BT1.sum(1).clamp(min=1).sqrt()


def weighted_mean(states_BTD: Tensor, mask_BT: Tensor, positions_BT: Tensor | None = None) -> Tensor:
    """Mean weighted by the token's position, counted from 1: (B, D)."""
    if positions_BT is None:
        positions_BT = mask_BT.cumsum(1)
    return mean(states_BTD, mask_BT * positions_BT)


def max(states_BTD: Tensor, mask_BT: Tensor) -> Tensor:  # noqa: A001 - the field's word
    """Largest value of each dimension: (B, D)."""
    filled_BTD = states_BTD.masked_fill(mask_BT.unsqueeze(-1) == 0, float("-inf"))
    largest_BD = filled_BTD.max(dim=1).values
    return torch.where(mask_BT.sum(1, keepdim=True) > 0, largest_BD, torch.zeros_like(largest_BD))


def cls(states_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """State of the first token that counts: (B, D)."""
    return _state_at(states_BTD, mask_BT, (mask_BT > 0).to(torch.int32).argmax(1))


def last_token(states_BTD: Tensor, mask_BT: Tensor) -> Tensor:
    """State of the last token that counts: (B, D)."""
    positions_T = torch.arange(1, mask_BT.shape[1] + 1, device=mask_BT.device)
    return _state_at(states_BTD, mask_BT, ((mask_BT > 0) * positions_T).argmax(1))


def _state_at(states_BTD: Tensor, mask_BT: Tensor, index_B: Tensor) -> Tensor:
    index_B1D = index_B.view(-1, 1, 1).expand(-1, 1, states_BTD.shape[-1]).long()
    states_BD = states_BTD.gather(1, index_B1D).squeeze(1)
    return torch.where(mask_BT.sum(1, keepdim=True) > 0, states_BD, torch.zeros_like(states_BD))


MODES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": cls,
    "max": max,
    "mean": mean,
    "mean_sqrt_len_tokens": mean_sqrt_len,
    "weightedmean": weighted_mean,
    "lasttoken": last_token,
}
"""Pooling functions by their names in a sentence-transformers configuration."""


def pool(states_BTD: Tensor, mask_BT: Tensor, modes: Sequence[str], prompt_tokens: int | Tensor = 0) -> Tensor:
    """Pool by each of ``modes`` and concatenate, leaving out the first ``prompt_tokens`` tokens: (B, D * modes)."""
    counted_BT = mask_BT
    if isinstance(prompt_tokens, Tensor) or prompt_tokens:  # a Tensor is the input of a traced graph
        positions_T = torch.arange(mask_BT.shape[1], device=mask_BT.device)
        counted_BT = mask_BT * (positions_T >= prompt_tokens)
    pooled = [
        weighted_mean(states_BTD, counted_BT, mask_BT.cumsum(1))
        if mode == "weightedmean"
        else MODES[mode](states_BTD, counted_BT)
        for mode in modes
    ]
    return torch.cat(pooled, dim=-1)
