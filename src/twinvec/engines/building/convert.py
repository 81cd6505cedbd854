"""Build the graph of a model from its weights, and compare it with the same network computed by NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.engines.building.checking import largest_difference
from twinvec.engines.building.network import Network
from twinvec.engines.building.onnx import OnnxOperations, check_size
from twinvec.engines.building.openvino import OpenVinoOperations
from twinvec.engines.loaded_model import LoadedModel
from twinvec.engines.runtimes import RuntimeName
from twinvec.errors import EngineError
from twinvec.models.backbone import BackboneSpec
from twinvec.models.tensors import Tensors
from twinvec.tokens.batching import Batch


def convert(name: RuntimeName, model: LoadedModel[BackboneSpec], path: Path) -> float:
    """Write the float32 graph of a model for a runtime and return its largest difference from NumPy.

    Raise MissingExtraError if the runtime or the package onnx is missing, ModelIntegrityError if the weights do not fit
    the configuration, and EngineError if the graph cannot be written or computed.
    """
    with Tensors(model.spec.folder) as tensors:
        network = Network(model.spec, tensors)
        save = _save_openvino if name == "openvino" else _save_onnx
        save(network, path)
        return largest_difference(name, model, path, Reference(network))


def _save_openvino(network: Network, path: Path) -> None:
    operations = OpenVinoOperations()
    try:
        outputs = network.describe(operations)
    except RuntimeError as error:  # OpenVINO's error about shapes that do not fit
        raise EngineError(f"{network.spec.folder}: its OpenVINO graph cannot be built: {error}") from error
    operations.save(outputs, path)


def _save_onnx(network: Network, path: Path) -> None:
    operations = OnnxOperations()
    outputs = network.describe(operations)
    check_size(network.spec.folder, operations.bytes)
    try:
        operations.save(outputs, network.axes, path)
    except (OSError, ValueError) as error:
        raise EngineError(f"{path}: cannot be written: {error}") from error


class Reference:
    """Vectors or logits computed by NumPy: each row alone, without its padding, and only once."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._known: dict[bytes, FloatArray] = {}

    def __call__(self, batch: Batch) -> FloatArray:
        return np.concatenate([self._row(batch, row) for row in range(len(batch.ids_BT))])

    def _row(self, batch: Batch, row: int) -> FloatArray:
        length = max(int(batch.mask_BT[row].sum()), 1)
        alone = batch.rows(row, row + 1).cut(length)
        key = b"".join(array.tobytes() for array in alone.inputs.values())
        if key not in self._known:
            self._known[key] = self._network.compute(alone)
        return self._known[key]
