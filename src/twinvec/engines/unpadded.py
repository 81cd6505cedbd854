"""Backbones without padding: the tokens of a batch form one row, and each text attends to itself only.

The attention is torch's flash attention for texts of different lengths (Dao 2023, FlashAttention-2), which needs a GPU
and half precision. Legend: B texts, T tokens (padded), N tokens of all texts, F = B * T, H heads, D dimension.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor, nn

from twinvec.arrays import IntArray
from twinvec.models.backbone import BACKBONES, OFFSET_POSITIONS

logger = logging.getLogger(__name__)

Send = Callable[[Any], Tensor]
"""Copies an array to the device."""

_ATTENTION = "twinvec_unpadded"
_BACKBONES = BACKBONES - {"mpnet"}  # MPNet adds a bias for each pair of tokens
_LEAST_COSINE = 0.995  # least cosine of a token's states with and without padding, in half precision
_PROBE_LENGTHS = (1, 5, 64, 190)  # tokens; the last exceeds ModernBERT's attention window


class Unpadded:
    """A backbone that computes no padding."""

    def __init__(self, backbone: nn.Module, send: Send) -> None:
        self._backbone = backbone
        self._send = send
        config: Any = backbone.config
        self._padding = config.pad_token_id if config.model_type in OFFSET_POSITIONS else None

    def states(self, ids_BT: IntArray, attended_BT: IntArray, types_BT: IntArray | None = None) -> Tensor:
        """Return token states (B, T, D), with zeros for padding; each row has at least one token.

        ``types_BT`` has the segments of a cross-encoder's pairs; None means all zero.
        """
        flat_N = np.flatnonzero(attended_BT)
        lengths_B = attended_BT.sum(1)
        bounds = np.concatenate([[0], np.cumsum(lengths_B)]).astype(np.int32)
        types = {} if types_BT is None else {"token_type_ids": self._send(types_BT.ravel()[flat_N][None])}
        states_1ND = self._backbone(
            input_ids=self._send(ids_BT.ravel()[flat_N][None]),
            position_ids=self._send(self._positions(ids_BT, attended_BT).ravel()[flat_N][None]),
            cu_seq_lens_q=self._send(bounds),
            max_length_q=int(lengths_B.max()),
            **types,
        ).last_hidden_state
        states_FD = states_1ND.new_zeros(ids_BT.size, states_1ND.shape[-1])
        states_FD.index_copy_(0, self._send(flat_N), states_1ND[0])
        states_BTD: Tensor = states_FD.view(*ids_BT.shape, -1)
        return states_BTD

    def _positions(self, ids_BT: IntArray, attended_BT: IntArray) -> IntArray:
        """Return the tokens' positions, which start at 0 or after the padding id."""
        if self._padding is None:
            return np.asarray(np.cumsum(attended_BT, axis=1) - 1)
        counts_BT = ids_BT != self._padding
        return np.asarray(np.cumsum(counts_BT, axis=1) * counts_BT + self._padding)


class ComputedStates(nn.Module):
    """Stands in for the backbone of a classifier, and returns token states that are already computed."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self._pooler = getattr(backbone, "pooler", None)

    def forward(self, input_ids: None = None, *, inputs_embeds: Tensor, **_: Any) -> Any:
        """Return the states (B, T, D) that are given as ``inputs_embeds``, in the form of the backbone's output."""
        from transformers.modeling_outputs import BaseModelOutputWithPooling

        pooled_BD = None if self._pooler is None else self._pooler(inputs_embeds)
        return BaseModelOutputWithPooling(last_hidden_state=inputs_embeds, pooler_output=pooled_BD)


def without_padding(backbone: nn.Module, send: Send) -> Unpadded | None:
    """Switch a backbone to computing without padding, and return the ``Unpadded`` to use in its place.

    If the backbone is not supported, or its states would change, return None and leave the backbone as it was.
    """
    config: Any = backbone.config
    if config.model_type not in _BACKBONES:
        return None
    before = config._attn_implementation
    ids_BT, mask_BT = _probe(config)
    expected_BTD = backbone(input_ids=send(ids_BT), attention_mask=send(mask_BT)).last_hidden_state
    try:
        _register()
        backbone.set_attn_implementation(_ATTENTION)  # type: ignore[operator]
        unpadded = Unpadded(backbone, send)
        found_BTD = unpadded.states(ids_BT, mask_BT)
        cosines_BT = nn.functional.cosine_similarity(found_BTD.float(), expected_BTD.float(), dim=-1)
        worst = cosines_BT[send(mask_BT) == 1].min()
        if worst >= _LEAST_COSINE:  # the comparison is false for NaN
            return unpadded
        logger.info(
            "padding is kept: a token's states with and without padding have a cosine of only %.4f", float(worst)
        )
    except (ImportError, RuntimeError, ValueError, TypeError, AttributeError) as error:
        logger.info("padding is kept: %s", error)
    backbone.set_attn_implementation(before)  # type: ignore[operator]
    return None


def _probe(config: Any) -> tuple[IntArray, IntArray]:
    """Return ids and mask of random texts of several lengths."""
    longest = min(_PROBE_LENGTHS[-1], config.max_position_embeddings - 4)
    lengths_B = np.minimum(_PROBE_LENGTHS, longest)
    mask_BT = (np.arange(longest) < lengths_B[:, None]).astype(np.int64)
    ids_BT = np.random.default_rng(0).integers(5, config.vocab_size, mask_BT.shape)
    return np.where(mask_BT == 1, ids_BT, config.pad_token_id or 0), mask_BT


def _register() -> None:
    from torch.nn.attention.varlen import varlen_attn
    from transformers import AttentionInterface

    def attention(
        module: nn.Module,
        query_1HND: Tensor,
        key_1HND: Tensor,
        value_1HND: Tensor,
        attention_mask: None,
        **options: Any,
    ) -> tuple[Tensor, None]:
        bounds, longest = options["cu_seq_lens_q"], options["max_length_q"]
        window = options.get("sliding_window")
        reach = -1 if window is None else window - 1  # transformers counts the token itself
        states_NHD: Any = varlen_attn(
            query_1HND[0].transpose(0, 1),
            key_1HND[0].transpose(0, 1),
            value_1HND[0].transpose(0, 1),
            bounds,
            bounds,
            longest,
            longest,
            scale=options.get("scaling"),
            window_size=(reach, reach),
        )
        return states_NHD[None], None

    AttentionInterface.register(_ATTENTION, attention)
