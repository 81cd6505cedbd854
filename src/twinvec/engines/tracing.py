"""Torch modules -> graphs, with dynamic batch and length, compared with the torch module on texts of all kinds.

An encoder's graph has two outputs: the vectors before any truncation of dimensions, (B, D), and the last layer's token
states, (B, T, D). An engine prunes token states that are not used. If pooling leaves the prompt out, the number of
prompt tokens is an input. A cross-encoder's graph has one output, the logits, (B, labels). The segments of a pair are
an input if the backbone uses them.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from twinvec.arrays import FloatArray
from twinvec.engines.building.checking import largest_difference
from twinvec.engines.building.onnx import OPSET, check_size
from twinvec.engines.loaded_model import LoadedModel
from twinvec.engines.onnx import import_onnx
from twinvec.engines.openvino import import_openvino, save_graph
from twinvec.engines.pooling import pool
from twinvec.engines.runtimes import RuntimeName
from twinvec.engines.torch import has_segments, load_backbone, load_head
from twinvec.errors import EngineError
from twinvec.interrupts import raise_of_handler
from twinvec.models.backbone import BackboneSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.support import telemetry
from twinvec.tokens.batching import Batch

if TYPE_CHECKING:
    import openvino

_EAGER = {"modernbert"}  # backbones whose fused attention gives NaN on padded rows once traced


class Network(nn.Module):
    """Backbone, pooling and head as one module: ids and mask in, vectors and states out."""

    outputs = ("vectors", "states")

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.backbone = load_backbone(spec.folder, _attention(spec))
        self.head = load_head(spec)
        self.pooling = spec.pooling
        self.inputs = ("input_ids", "attention_mask", *(() if spec.include_prompt else ("prompt_tokens",)))
        self.eval()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, prompt_tokens: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        # without a token to attend to, attention is NaN: see engines/torch
        first_B1 = torch.ones_like(attention_mask[:, :1])
        attended_BT = torch.cat([first_B1, attention_mask[:, 1:]], dim=1)
        states_BTD = self.backbone(input_ids=input_ids, attention_mask=attended_BT).last_hidden_state
        excluded = 0 if prompt_tokens is None else prompt_tokens
        return self.head(pool(states_BTD, attention_mask, self.pooling, excluded)), states_BTD


class Classifier(nn.Module):
    """A cross-encoder as one module: ids, mask and segments of pairs in, logits out."""

    outputs = ("logits",)

    def __init__(self, spec: BackboneSpec) -> None:
        super().__init__()
        self.model = load_backbone(spec.folder, _attention(spec), classifier=True)
        self.inputs = ("input_ids", "attention_mask", *(("token_type_ids",) if has_segments(self.model) else ()))
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        segments = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, **segments).logits
        return logits


def convert(name: RuntimeName, model: LoadedModel[BackboneSpec], path: Path) -> float:
    """Write the float32 graph of a model for a runtime and return its largest difference from the torch module.

    Raise MissingExtraError if the runtime or the package onnx is missing, and EngineError if the graph cannot be made,
    written or computed.
    """
    spec = model.spec
    module = Network(spec) if isinstance(spec, ModelSpec) else Classifier(spec)
    if name == "openvino":
        save_graph(_convert_openvino(module, spec.folder), path)
    else:
        _convert_onnx(module, spec.folder, path)
    return largest_difference(name, model, path, lambda batch: _expected(module, batch))


def _convert_onnx(module: Network | Classifier, folder: Path, path: Path) -> None:
    """Write a module as one ONNX file; the input ``prompt_tokens`` defaults to 0, since FastEmbed does not know it."""
    onnx = import_onnx()
    size = sum(values.nbytes for values in module.state_dict().values())
    check_size(folder, size)
    example = _example(module)
    axes = {name: {0: "batch", 1: "length"} for name, value in example.items() if value.dim()}
    axes |= {name: {0: "batch", 1: "length"} if name == "states" else {0: "batch"} for name in module.outputs}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # hides warnings of the tracer, and the advice to use the newer exporter
        try:
            torch.onnx.export(
                module,
                tuple(example.values()),
                path,
                dynamo=False,
                opset_version=OPSET,
                input_names=list(example),
                output_names=list(module.outputs),
                dynamic_axes=axes,
            )
            if "prompt_tokens" in example:
                graph = onnx.load(path)
                default = onnx.numpy_helper.from_array(np.array(0, dtype=np.int64), "prompt_tokens")
                graph.graph.initializer.append(default)
                onnx.save(graph, path)
        except Exception as error:  # the tracer raises errors of many types
            raise_of_handler(error)
            raise EngineError(f"{folder}: cannot be converted to ONNX: {error}") from error


def _convert_openvino(module: Network | Classifier, folder: Path) -> openvino.Model:
    openvino = import_openvino()
    example = _example(module)
    shapes = [(name, [-1] * value.dim(), openvino.Type.i64) for name, value in example.items()]
    # switched_off holds a lock, so that one thread at a time saves and restores the state of the process
    with telemetry.switched_off(), warnings.catch_warnings(), _root_logger_kept(), torch.no_grad():
        warnings.simplefilter("ignore")  # hides warnings of the tracer about shapes, which the inputs above fix
        try:
            graph = openvino.convert_model(module, example_input=example, input=shapes)
        except Exception as error:  # OpenVINO and the tracer raise errors of many types
            raise_of_handler(error)
            raise EngineError(f"{folder}: cannot be converted for OpenVINO: {error}") from error
    for port in graph.inputs:  # the tracer has added names of its own
        port.get_tensor().set_names(port.get_names() & set(module.inputs))
    for port, name in zip(graph.outputs, module.outputs, strict=True):
        port.get_tensor().set_names({name})
    return graph


def _expected(module: Network | Classifier, batch: Batch) -> FloatArray:
    with torch.inference_mode():
        outputs = module(**_inputs(module, batch))
    first: Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
    return first.float().numpy()


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Restore the root logger after the block, because a failed conversion in OpenVINO silences all warnings."""
    root = logging.getLogger()
    level, filters, handlers = root.level, list(root.filters), list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters, root.handlers = filters, handlers


def _attention(spec: BackboneSpec) -> str | None:
    return "eager" if spec.config["model_type"] in _EAGER else None


def _example(module: Network | Classifier) -> dict[str, Tensor]:
    ones_BT = np.ones((2, 5), dtype=np.int64)
    return _inputs(module, Batch(ones_BT, ones_BT, ones_BT, prompt_tokens=1))


def _inputs(module: Network | Classifier, batch: Batch) -> dict[str, Tensor]:
    arrays = batch.inputs
    return {name: torch.from_numpy(arrays[name]) for name in module.inputs}
