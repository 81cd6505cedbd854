"""The operations in ONNX graphs. A node is the name of its tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.engines.building.operations import Array
from twinvec.engines.onnx import import_onnx
from twinvec.errors import EngineError

OPSET = 18
"""The first operation set in which reductions get their axes as an input."""
_MOST_BYTES = 2**31 - 2**20  # the limit of one protocol buffer, minus room for the graph itself
_FORMAT = 8  # the version of the file format that belongs to the operation set


class OnnxOperations:
    """The operations as nodes of one graph, which ``save`` writes; ``bytes`` is the size of its constants."""

    def __init__(self) -> None:
        self._onnx = import_onnx()
        self.bytes = 0
        self._nodes: list[Any] = []
        self._inputs: list[Any] = []
        self._constants: list[Any] = []
        self.add = partial(self._node, "Add")
        self.multiply = partial(self._node, "Mul")
        self.divide = partial(self._node, "Div")
        self.maximum = partial(self._node, "Max")
        self.square_root = partial(self._node, "Sqrt")

    def save(self, outputs: dict[str, str], axes: dict[str, list[str | int]], path: Path) -> None:
        """Write the graph with the named outputs, whose axes have names or sizes; scalar inputs default to 0."""
        helper, types = self._onnx.helper, self._onnx.TensorProto
        for name, node in outputs.items():
            self._nodes.append(helper.make_node("Identity", [node], [name]))
        made = [helper.make_tensor_value_info(name, types.FLOAT, axes[name]) for name in outputs]
        for port in self._inputs:  # gives the input a default, because FastEmbed does not pass it
            if not port.type.tensor_type.shape.dim:
                zero = np.array(0, dtype=np.int64)
                self._constants.append(self._onnx.numpy_helper.from_array(zero, port.name))
        graph = helper.make_graph(self._nodes, "twinvec", self._inputs, made, self._constants)
        opset = helper.make_opsetid("", OPSET)
        self._onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=_FORMAT), path)

    def input(self, name: str, rank: int) -> str:
        axes = ["batch", "length"][:rank]
        types = self._onnx.TensorProto
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, types.INT64, axes))
        return name

    def constant(self, values: Array) -> str:
        self.bytes += values.nbytes
        name = f"constant_{len(self._constants)}"
        self._constants.append(self._onnx.numpy_helper.from_array(np.array(values, order="C"), name))
        return name

    def equal(self, first: str, second: str) -> str:
        return self._integers(self._node("Equal", first, second))

    def at_least(self, first: str, second: str) -> str:
        return self._integers(self._node("GreaterOrEqual", first, second))

    def to_float(self, node: str) -> str:
        return self._node("Cast", node, to=self._onnx.TensorProto.FLOAT)

    def positions(self, ids_BT: str) -> str:
        length = self._node("Gather", self._node("Shape", ids_BT), self._int64(1), axis=0)
        return self._node("Range", self._int64(0), length, self._int64(1))

    def running_sum(self, node: str) -> str:
        return self._node("CumSum", node, self._int64(1))

    def sum(self, node: str, axis: int, *, keep: bool = False) -> str:
        return self._node("ReduceSum", node, self._int64([axis]), keepdims=int(keep))

    def largest(self, node: str, axis: int, *, keep: bool = False) -> str:
        return self._node("ReduceMax", node, self._int64([axis]), keepdims=int(keep))

    def rows(self, table: str, indices: str) -> str:
        return self._node("Gather", table, indices, axis=0)

    def first(self, node_BTD: str) -> str:
        return self._node("Gather", node_BTD, self._int64(0), axis=1)

    def reshape(self, node: str, shape: Sequence[int]) -> str:
        return self._node("Reshape", node, self._int64(shape))

    def joined(self, nodes: Sequence[str]) -> str:
        return self._node("Concat", *nodes, axis=-1)

    def transpose(self, node: str, order: Sequence[int]) -> str:
        return self._node("Transpose", node, perm=list(order))

    def linear(self, node: str, weight_OI: Array, bias_O: Array | None) -> str:
        product = self._node("MatMul", node, self.constant(weight_OI.T))
        return product if bias_O is None else self.add(self.constant(bias_O), product)

    def layer_norm(self, node: str, weight_D: Array, bias_D: Array, epsilon: float) -> str:
        weight, bias = self.constant(weight_D), self.constant(bias_D)
        return self._node("LayerNormalization", node, weight, bias, axis=-1, epsilon=epsilon)

    def activation(self, node: str, name: str) -> str:
        if name == "GELU":
            return self._halved(node, self._node("Erf", self.divide(node, self._number(math.sqrt(2)))))
        if name == "GELU of tanh":
            cubic = self.multiply(self._number(0.044715), self.multiply(node, self.multiply(node, node)))
            inner = self.multiply(self._number(math.sqrt(2 / math.pi)), self.add(node, cubic))
            return self._halved(node, self._node("Tanh", inner))
        if name == "SiLU":
            return self.multiply(node, self._node("Sigmoid", node))
        return node if name == "Identity" else self._node({"ReLU": "Relu"}.get(name, name), node)

    def attention(self, query_BHTD: str, key_BHTD: str, value_BHTD: str, bias: str, size: int) -> str:
        key_BHDT = self.transpose(key_BHTD, (0, 1, 3, 2))
        scores_BHTT = self.multiply(self._node("MatMul", query_BHTD, key_BHDT), self._number(1 / math.sqrt(size)))
        weights_BHTT = self._node("Softmax", self.add(scores_BHTT, bias), axis=-1)
        return self._node("MatMul", weights_BHTT, value_BHTD)

    def _halved(self, node: str, function: str) -> str:
        """``node * (1 + function) / 2``."""
        return self.multiply(self.multiply(node, self.add(function, self._number(1))), self._number(0.5))

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def _integers(self, node: str) -> str:
        return self._node("Cast", node, to=self._onnx.TensorProto.INT64)

    def _int64(self, values: int | Sequence[int]) -> str:
        return self.constant(np.array(values, dtype=np.int64))

    def _number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))


def check_size(folder: Path, size: int) -> None:
    """Raise EngineError if ``size`` bytes of weights are too many for one file."""
    if size > _MOST_BYTES:
        raise EngineError(f"{folder}: has {size / 2**30:.1f} GB of weights, too many for one ONNX file")
