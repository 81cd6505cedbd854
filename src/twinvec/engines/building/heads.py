"""Descriptions of the steps after the backbone: pooling, Dense, Normalize, and the head of cross-encoders.

Pooling is that of ``engines.pooling``. Each mode but ``max`` is a weighted sum of the states: the weights say which
tokens count, and how much. Legend: B texts, T tokens (padded), D dimension.
"""

from __future__ import annotations

import numpy as np

from twinvec.engines.building.operations import Node, Operations
from twinvec.models.encoder_spec import Dense, ModelSpec
from twinvec.models.tensors import Tensors

_SMALLEST = np.float32(1e-12)  # the eps of torch.nn.functional.normalize
_LOWEST = np.float32(-3e38)


def pooled(ops: Operations, states_BTD: Node, mask_BT: Node, spec: ModelSpec, prompt_tokens: Node | None) -> Node:
    """Pool by each mode and concatenate, leaving out the first ``prompt_tokens`` tokens: (B, D * modes)."""
    counted_BT = mask_BT
    if prompt_tokens is not None:
        counted_BT = ops.multiply(mask_BT, ops.at_least(ops.positions(mask_BT), prompt_tokens))
    found = [_pooled(ops, mode, states_BTD, mask_BT, counted_BT) for mode in spec.pooling]
    return ops.joined(found) if len(found) > 1 else found[0]


def _pooled(ops: Operations, mode: str, states_BTD: Node, mask_BT: Node, counted_BT: Node) -> Node:
    if mode == "max":
        return _largest(ops, states_BTD, counted_BT)
    one = ops.constant(np.array(1))
    if mode == "cls":
        weights_BT = ops.multiply(counted_BT, ops.equal(ops.running_sum(counted_BT), one))
    elif mode == "lasttoken":
        numbers_BT = ops.multiply(counted_BT, ops.add(ops.positions(counted_BT), one))
        last_B1 = ops.largest(numbers_BT, 1, keep=True)
        weights_BT = ops.multiply(counted_BT, ops.equal(numbers_BT, last_B1))
    elif mode == "weightedmean":
        weights_BT = ops.multiply(counted_BT, ops.running_sum(mask_BT))
    else:
        weights_BT = counted_BT
    weights_BT = ops.to_float(weights_BT)
    sums_BD = ops.sum(ops.multiply(states_BTD, ops.reshape(weights_BT, (0, 0, 1))), 1)
    total_B1 = ops.maximum(ops.sum(weights_BT, 1, keep=True), ops.constant(np.array(1, dtype=np.float32)))
    return ops.divide(sums_BD, ops.square_root(total_B1) if mode == "mean_sqrt_len_tokens" else total_B1)


def _largest(ops: Operations, states_BTD: Node, counted_BT: Node) -> Node:
    """Return the largest value of each dimension; zeros for a text without tokens."""
    counted_BT1 = ops.reshape(ops.to_float(counted_BT), (0, 0, 1))
    minus_one = ops.constant(np.array(-1, dtype=np.float32))
    excluded_BT1 = ops.multiply(ops.add(counted_BT1, minus_one), ops.constant(np.array(-_LOWEST)))
    largest_BD = ops.largest(ops.add(ops.multiply(states_BTD, counted_BT1), excluded_BT1), 1)
    return ops.multiply(largest_BD, ops.largest(counted_BT1, 1))


def vectors(ops: Operations, pooled_BD: Node, spec: ModelSpec) -> Node:
    """Apply Dense and Normalize in order."""
    for step in spec.head:
        if isinstance(step, Dense):
            with Tensors(step.folder) as tensors:
                weight = tensors.read_shaped("linear.weight", (step.out_features, step.in_features))
                bias = tensors.read_shaped("linear.bias", (step.out_features,)) if step.bias else None
            pooled_BD = ops.activation(ops.linear(pooled_BD, weight, bias), step.activation)
        else:
            norm_B1 = ops.square_root(ops.sum(ops.multiply(pooled_BD, pooled_BD), 1, keep=True))
            pooled_BD = ops.divide(pooled_BD, ops.maximum(norm_B1, ops.constant(np.array(_SMALLEST))))
    return pooled_BD
