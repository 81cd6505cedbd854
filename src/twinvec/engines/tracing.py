"""Torch modules -> graphs: from token ids and mask to the pooled, normalised vector, or to a pair's logit.

A graph is traced with dynamic batch and length, and is then compared with the modules on texts of all kinds.

Outputs of an encoder's graph are the vectors, (B, D) before any truncation of dimensions, and the last layer's token
states, (B, T, D), which an engine leaves out where nobody asks for them; models that leave a prompt out of pooling have
one input more, its number of tokens. A cross-encoder's graph has one output, the logits, (B, labels); where the
backbone tells the two texts of a pair apart, their segments are an input.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from twinvec.arrays import FloatArray
from twinvec.engines.onnx import import_onnx
from twinvec.engines.openvino import import_openvino, save_graph
from twinvec.engines.pooling import pool
from twinvec.engines.runtimes import RuntimeName
from twinvec.engines.torch import has_segments, load_backbone, load_classifier, load_head
from twinvec.errors import EngineError
from twinvec.models.cross_encoder_spec import ClassifierSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.models.space import SPACE_PROBES
from twinvec.support import telemetry
from twinvec.tokens.batching import Batch
from twinvec.tokens.tokenizer import TextTokenizer

if TYPE_CHECKING:
    import openvino

_OPSET = 18  # the first in which ONNX itself reduces over given axes; every runtime of the last years has it
_ONNX_BYTES = 2**31 - 2**20  # what one protocol buffer holds, less the graph itself

EAGER = {"modernbert"}
"""Backbones whose fused attention gives NaN on padded rows once traced."""


class Network(nn.Module):
    """Backbone, pooling and head as one module: ids and mask in, vectors and states out."""

    outputs = ("vectors", "states")

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.backbone = load_backbone(spec.folder, _attention(spec.config))
        self.head = load_head(spec)
        self.pooling = spec.pooling
        self.inputs = ("input_ids", "attention_mask", *(() if spec.include_prompt else ("prompt_tokens",)))
        self.eval()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, prompt_tokens: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        first = torch.ones_like(attention_mask[:, :1])  # attention over nothing is NaN: see engines/torch
        attended_BT = torch.cat([first, attention_mask[:, 1:]], dim=1)
        states_BTD = self.backbone(input_ids=input_ids, attention_mask=attended_BT).last_hidden_state
        left_out = 0 if prompt_tokens is None else prompt_tokens
        return self.head(pool(states_BTD, attention_mask, self.pooling, left_out)), states_BTD


class Classifier(nn.Module):
    """A cross-encoder as one module: ids, mask and segments of pairs in, logits out."""

    outputs = ("logits",)

    def __init__(self, spec: ClassifierSpec) -> None:
        super().__init__()
        self.model = load_classifier(spec.folder, _attention(spec.config))
        self.inputs = ("input_ids", "attention_mask", *(("token_type_ids",) if has_segments(self.model) else ()))
        self.eval()

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        segments = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, **segments).logits
        return logits


def write_graph(runtime: RuntimeName, module: Network | Classifier, folder: Path, path: Path) -> None:
    """Trace a module into a float32 graph for a runtime and write it; ``folder`` says in errors what it is.

    Raises:
        EngineError: it cannot be traced or written.
    """
    if runtime == "openvino":
        save_graph(convert_openvino(module, folder), path)
    else:
        convert_onnx(module, folder, path)


def convert_onnx(module: Network | Classifier, folder: Path, path: Path) -> None:
    """Trace a module into an ONNX graph of float32 and write it as one file.

    The number of prompt tokens, where it is an input, is 0 unless given, so that FastEmbed need not know of it.

    Raises:
        MissingExtraError: the package onnx is not installed.
        EngineError: it cannot be traced or written, or is larger than one file can be.
    """
    onnx = import_onnx()
    size = sum(values.nbytes for values in module.state_dict().values())
    if size > _ONNX_BYTES:
        raise EngineError(f"{folder}: has {size / 2**30:.1f} GB of weights, too many for one ONNX file")
    example = _example(module)
    axes = {name: {0: "batch", 1: "length"} for name, value in example.items() if value.dim()}
    axes |= {name: {0: "batch", 1: "length"} if name == "states" else {0: "batch"} for name in module.outputs}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's, and that there is another exporter, with needs of its own
        try:
            torch.onnx.export(
                module,
                tuple(example.values()),
                path,
                dynamo=False,
                opset_version=_OPSET,
                input_names=list(example),
                output_names=list(module.outputs),
                dynamic_axes=axes,
            )
            if "prompt_tokens" in example:
                graph = onnx.load(path)
                graph.graph.initializer.append(
                    onnx.numpy_helper.from_array(np.array(0, dtype=np.int64), "prompt_tokens")
                )
                onnx.save(graph, path)
        except Exception as error:  # the tracer raises all kinds
            raise EngineError(f"{folder}: cannot be converted to ONNX: {error}") from error


def convert_openvino(module: Network | Classifier, folder: Path) -> openvino.Model:
    """Trace a module into an OpenVINO graph of float32, its inputs and outputs named as in ``engines/graph``.

    Raises:
        EngineError: it cannot be traced; ``folder`` says what it is.
    """
    openvino = import_openvino()
    example = _example(module)
    shapes = [(name, [-1] * value.dim(), openvino.Type.i64) for name, value in example.items()]
    with warnings.catch_warnings(), _root_logger_kept(), telemetry.switched_off(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's, of shapes that the inputs above fix
        try:
            graph = openvino.convert_model(module, example_input=example, input=shapes)
        except Exception as error:  # OpenVINO and the tracer raise all kinds
            raise EngineError(f"{folder}: cannot be converted for OpenVINO: {error}") from error
    for port in graph.inputs:  # the tracer adds names of its own
        port.get_tensor().set_names(port.get_names() & set(module.inputs))
    for port, name in zip(graph.outputs, module.outputs, strict=True):
        port.get_tensor().set_names({name})
    return graph


def reference(module: Network | Classifier, batch: Batch) -> FloatArray:
    """What the torch module gives for a batch: vectors or logits."""
    with torch.inference_mode():
        outputs = module(**_inputs(module, batch))
    first: Tensor = outputs[0] if isinstance(outputs, tuple) else outputs
    found: FloatArray = first.float().numpy()
    return found


def probe_batches(tokenizer: TextTokenizer, prompt_tokens: int = 0) -> list[Batch]:
    """Texts of all kinds and lengths to compare two engines with: each alone, and all in one padded batch."""
    texts = [*SPACE_PROBES, *(" ".join(SPACE_PROBES[2:] * repeats) for repeats in (1, 3))]
    tokens = tokenizer.encode(texts)
    rows = [np.array([index]) for index in (0, 2, 8, len(texts) - 1)]
    return [tokens.batch(chosen, tokenizer.pad_id, prompt_tokens) for chosen in [*rows, np.arange(len(texts))]]


def probe_pairs(tokenizer: TextTokenizer) -> list[Batch]:
    """Pairs of such texts for a cross-encoder: one alone, and all in one padded batch."""
    pairs = [
        *zip(SPACE_PROBES, SPACE_PROBES[3:], strict=False),
        (" ".join(SPACE_PROBES[2:]), " ".join(SPACE_PROBES * 2)),
    ]
    tokens = tokenizer.encode_pairs(pairs)
    return [tokens.batch(chosen, tokenizer.pad_id) for chosen in (np.array([2]), np.arange(len(pairs)))]


def worst_cosine(a_BD: FloatArray, b_BD: FloatArray) -> float:
    """The smallest cosine of the rows of two arrays; rows of zeros in both agree. NaN counts as -1."""
    norms = np.linalg.norm(a_BD, axis=1) * np.linalg.norm(b_BD, axis=1)
    products = (a_BD.astype(np.float64) * b_BD).sum(axis=1)
    same = np.where(norms > 0, products / np.maximum(norms, 1e-30), np.all(a_BD == b_BD, axis=1))
    return float(np.nan_to_num(same, nan=-1.0).min())


@contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Where a conversion fails, OpenVINO leaves the root logger deaf to warnings, those of the whole process."""
    root = logging.getLogger()
    level, filters, handlers = root.level, list(root.filters), list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.filters, root.handlers = filters, handlers


def _attention(config: dict[str, Any]) -> str | None:
    return "eager" if config["model_type"] in EAGER else None


def _example(module: Network | Classifier) -> dict[str, Tensor]:
    ones_BT = np.ones((2, 5), dtype=np.int64)
    return _inputs(module, Batch(ones_BT, ones_BT, ones_BT, prompt_tokens=1))


def _inputs(module: Network | Classifier, batch: Batch) -> dict[str, Tensor]:
    given = batch.inputs
    return {name: torch.from_numpy(given[name]) for name in module.inputs}
