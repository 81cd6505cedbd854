"""The operations in OpenVINO's graphs; the graphs are like those that OpenVINO converts from torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinvec.engines.building.operations import Array, Node
from twinvec.engines.openvino import import_openvino, save_graph


class OpenVinoOperations:
    """The operations as nodes of one graph, which ``save`` writes."""

    def __init__(self) -> None:
        self._openvino = import_openvino()
        from openvino import opset13

        self._ops: Any = opset13
        self._inputs: list[Node] = []
        self.add: Any = opset13.add
        self.multiply: Any = opset13.multiply
        self.divide: Any = opset13.divide
        self.maximum: Any = opset13.maximum
        self.square_root: Any = opset13.sqrt

    def save(self, outputs: dict[str, Node], path: Any) -> None:
        """Write the graph with the named outputs."""
        model = self._openvino.Model(list(outputs.values()), self._inputs)
        for port, name in zip(model.outputs, outputs, strict=True):
            port.get_tensor().set_names({name})
        save_graph(model, path)

    def input(self, name: str, rank: int) -> Node:
        node = self._ops.parameter([-1] * rank, np.int64, name)
        node.output(0).get_tensor().set_names({name})
        self._inputs.append(node)
        return node

    def constant(self, values: Array) -> Node:
        return self._ops.constant(np.array(values, order="C"))

    def equal(self, first: Node, second: Node) -> Node:
        return self._ops.convert(self._ops.equal(first, second), np.int64)

    def at_least(self, first: Node, second: Node) -> Node:
        return self._ops.convert(self._ops.greater_equal(first, second), np.int64)

    def to_float(self, node: Node) -> Node:
        return self._ops.convert(node, np.float32)

    def positions(self, ids_BT: Node) -> Node:
        ops = self._ops
        length = ops.gather(ops.shape_of(ids_BT), self._int64(1), self._int64(0))
        return ops.range(self._int64(0), length, self._int64(1), "i64")

    def running_sum(self, node: Node) -> Node:
        return self._ops.cum_sum(node, self._int64(1))

    def sum(self, node: Node, axis: int, *, keep: bool = False) -> Node:
        return self._ops.reduce_sum(node, self._int64(axis), keep)

    def largest(self, node: Node, axis: int, *, keep: bool = False) -> Node:
        return self._ops.reduce_max(node, self._int64(axis), keep)

    def rows(self, table: Node, indices: Node) -> Node:
        return self._ops.gather(table, indices, self._int64(0))

    def first(self, node_BTD: Node) -> Node:
        return self._ops.gather(node_BTD, self._int64(0), self._int64(1))

    def reshape(self, node: Node, shape: Sequence[int]) -> Node:
        return self._ops.reshape(node, self._int64(shape), special_zero=True)

    def joined(self, nodes: Sequence[Node]) -> Node:
        return self._ops.concat(list(nodes), -1)

    def transpose(self, node: Node, order: Sequence[int]) -> Node:
        return self._ops.transpose(node, self._int64(order))

    def linear(self, node: Node, weight_OI: Array, bias_O: Array | None) -> Node:
        product = self._ops.matmul(node, self.constant(weight_OI), False, True)
        return product if bias_O is None else self._ops.add(product, self.constant(bias_O))

    def layer_norm(self, node: Node, weight_D: Array, bias_D: Array, epsilon: float) -> Node:
        normed = self._ops.mvn(node, self._int64([-1]), True, epsilon, "inside_sqrt")
        return self._ops.add(self._ops.multiply(normed, self.constant(weight_D)), self.constant(bias_D))

    def activation(self, node: Node, name: str) -> Node:
        ops = self._ops
        if name.startswith("GELU"):
            return ops.gelu(node, "erf" if name == "GELU" else "tanh")
        if name == "SiLU":
            return ops.swish(node)
        return node if name == "Identity" else getattr(ops, name.lower())(node)

    def attention(self, query_BHTD: Node, key_BHTD: Node, value_BHTD: Node, bias: Node, size: int) -> Node:
        return self._ops.scaled_dot_product_attention(query_BHTD, key_BHTD, value_BHTD, bias)

    def _int64(self, values: int | Sequence[int]) -> Node:
        return self.constant(np.array(values, dtype=np.int64))
