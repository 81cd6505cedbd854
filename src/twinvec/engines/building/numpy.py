"""The operations in NumPy, computed at once: the reference that a graph is compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from twinvec.engines.building.operations import Array

_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


class NumpyOperations:
    """The operations on arrays; ``inputs`` are the values of the network's inputs."""

    add = staticmethod(np.add)
    multiply = staticmethod(np.multiply)
    divide = staticmethod(np.divide)
    maximum = staticmethod(np.maximum)
    square_root = staticmethod(np.sqrt)

    def __init__(self, inputs: Mapping[str, Array]) -> None:
        self._inputs = inputs

    def input(self, name: str, rank: int) -> Array:
        return self._inputs[name]

    def constant(self, values: Array) -> Array:
        return values

    def equal(self, first: Array, second: Array) -> Array:
        return np.equal(first, second).astype(np.int64)

    def at_least(self, first: Array, second: Array) -> Array:
        return np.greater_equal(first, second).astype(np.int64)

    def to_float(self, node: Array) -> Array:
        return node.astype(np.float32)

    def positions(self, ids_BT: Array) -> Array:
        return np.arange(ids_BT.shape[1])

    def running_sum(self, node: Array) -> Array:
        return np.cumsum(node, axis=1)

    def sum(self, node: Array, axis: int, *, keep: bool = False) -> Array:
        return np.asarray(node.sum(axis=axis, keepdims=keep))

    def largest(self, node: Array, axis: int, *, keep: bool = False) -> Array:
        return np.asarray(node.max(axis=axis, keepdims=keep))

    def rows(self, table: Array, indices: Array) -> Array:
        return np.asarray(table[indices])

    def first(self, node_BTD: Array) -> Array:
        return np.asarray(node_BTD[:, 0])

    def reshape(self, node: Array, shape: Sequence[int]) -> Array:
        return node.reshape([size or node.shape[axis] for axis, size in enumerate(shape)])

    def joined(self, nodes: Sequence[Array]) -> Array:
        return np.concatenate(nodes, axis=-1)

    def transpose(self, node: Array, order: Sequence[int]) -> Array:
        return node.transpose(order)

    def linear(self, node: Array, weight_OI: Array, bias_O: Array | None) -> Array:
        product = (node.reshape(-1, node.shape[-1]) @ weight_OI.T).reshape(*node.shape[:-1], -1)
        return np.asarray(product if bias_O is None else product + bias_O)

    def layer_norm(self, node: Array, weight_D: Array, bias_D: Array, epsilon: float) -> Array:
        centred = node - node.mean(axis=-1, keepdims=True)
        variance = np.square(centred).mean(axis=-1, keepdims=True)
        return np.asarray(centred / np.sqrt(variance + np.float32(epsilon)) * weight_D + bias_D)

    def activation(self, node: Array, name: str) -> Array:
        if name == "GELU":
            return node * (0.5 + 0.5 * _erf(node * np.float32(math.sqrt(0.5))))
        if name == "GELU of tanh":
            return node * (0.5 + 0.5 * np.tanh(math.sqrt(2 / math.pi) * (node + 0.044715 * node**3)))
        if name == "ReLU":
            return np.maximum(node, 0)
        if name in ("SiLU", "Sigmoid"):
            gate = 0.5 + 0.5 * np.tanh(0.5 * node)
            return gate if name == "Sigmoid" else node * gate
        return np.tanh(node) if name == "Tanh" else node

    def attention(self, query_BHTD: Array, key_BHTD: Array, value_BHTD: Array, bias: Array, size: int) -> Array:
        scores_BHTT = query_BHTD @ key_BHTD.swapaxes(-1, -2) / np.float32(math.sqrt(size)) + bias
        weights_BHTT = np.exp(scores_BHTT - scores_BHTT.max(axis=-1, keepdims=True))
        return np.asarray(weights_BHTT / weights_BHTT.sum(axis=-1, keepdims=True) @ value_BHTD)


def _erf(values: Array) -> Array:
    """Return the error function within 1.5e-7 (Abramowitz and Stegun 1964, formula 7.1.26)."""
    size = np.abs(values)
    step = 1 / (1 + 0.3275911 * size)
    series = np.zeros_like(size)
    for factor in reversed(_ERF):
        series = (series + factor) * step
    return np.asarray(np.copysign(1 - series * np.exp(-size * size), values))
