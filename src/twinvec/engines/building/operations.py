"""The operations with which networks are described, and the names of activations.

A node is a float32 or int64 tensor of a graph. Each implementation has its own type of node. Operations on two nodes
broadcast as NumPy does. Legend: B texts, T tokens (padded), D dimension, H heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Node = Any
Array = npt.NDArray[Any]

MASKED = np.float32(-1e30)
"""Number that is added to the attention scores of padding."""

ACTIVATIONS = {
    "gelu": "GELU",
    "gelu_python": "GELU",
    "gelu_new": "GELU of tanh",
    "gelu_fast": "GELU of tanh",
    "gelu_pytorch_tanh": "GELU of tanh",
    "gelu_python_tanh": "GELU of tanh",
    "relu": "ReLU",
    "silu": "SiLU",
    "swish": "SiLU",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "linear": "Identity",
}
"""Activation in a backbone's configuration -> the name that ``Operations.activation`` knows."""


class Operations(Protocol):
    """The operations of a network."""

    def input(self, name: str, rank: int) -> Node:
        """An int64 input with ``rank`` dynamic axes."""

    def constant(self, values: Array) -> Node: ...

    def add(self, first: Node, second: Node) -> Node: ...

    def multiply(self, first: Node, second: Node) -> Node: ...

    def divide(self, first: Node, second: Node) -> Node: ...

    def maximum(self, first: Node, second: Node) -> Node: ...

    def equal(self, first: Node, second: Node) -> Node:
        """1 where two int64 nodes are equal, else 0."""

    def at_least(self, first: Node, second: Node) -> Node:
        """1 where the first of two int64 nodes is greater than or equal to the second, else 0."""

    def to_float(self, node: Node) -> Node: ...

    def positions(self, ids_BT: Node) -> Node:
        """0, 1, ... up to T - 1: (T,)."""

    def running_sum(self, node: Node) -> Node:
        """Cumulative sums along axis 1."""

    def sum(self, node: Node, axis: int, *, keep: bool = False) -> Node: ...

    def largest(self, node: Node, axis: int, *, keep: bool = False) -> Node: ...

    def square_root(self, node: Node) -> Node: ...

    def rows(self, table: Node, indices: Node) -> Node:
        """The rows of a table at int64 indices."""

    def first(self, node_BTD: Node) -> Node:
        """The values of the first token: (B, D)."""

    def reshape(self, node: Node, shape: Sequence[int]) -> Node:
        """Change the shape of a node: 0 keeps the size of an axis, -1 stands for the size that remains."""

    def joined(self, nodes: Sequence[Node]) -> Node:
        """Concatenate the nodes along the last axis."""

    def transpose(self, node: Node, order: Sequence[int]) -> Node: ...

    def linear(self, node: Node, weight_OI: Array, bias_O: Array | None) -> Node: ...

    def layer_norm(self, node: Node, weight_D: Array, bias_D: Array, epsilon: float) -> Node:
        """Mean 0 and variance 1 along the last axis, then weight and bias."""

    def activation(self, node: Node, name: str) -> Node:
        """Apply an activation, named by a value of ``ACTIVATIONS``."""

    def attention(self, query_BHTD: Node, key_BHTD: Node, value_BHTD: Node, bias: Node, size: int) -> Node:
        """``softmax(query @ key.T / sqrt(size) + bias) @ value``, with D = ``size``: (B, H, T, D)."""
