"""A model folder -> one graph, from token ids and mask to the pooled, normalised vector.

The graph is traced from the torch modules, with dynamic batch and length, and is then compared with them on texts of
all kinds. Its outputs are the vectors, (B, D) before any truncation of dimensions, and the last layer's token states,
(B, T, D), which an engine leaves out where nobody asks for them. Models that leave a prompt out of pooling have one
input more, its number of tokens.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from twinvec.engines.base import Batch, FloatArray
from twinvec.engines.torch import load_backbone, load_head
from twinvec.errors import EngineError
from twinvec.pooling import pool
from twinvec.space import PROBES
from twinvec.spec import ModelSpec
from twinvec.tokenizer import TextTokenizer

if TYPE_CHECKING:
    import openvino

EAGER = {"modernbert"}
"""Backbones whose fused attention gives NaN on padded rows once traced."""


class Network(nn.Module):
    """Backbone, pooling and head as one module: ids and mask in, vectors and states out."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.backbone = load_backbone(spec.folder, "eager" if spec.config["model_type"] in EAGER else None)
        self.head = load_head(spec)
        self.pooling = spec.pooling
        self.eval()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, prompt_tokens: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        first = torch.ones_like(attention_mask[:, :1])  # attention over nothing is NaN: see engines/torch
        attended_BT = torch.cat([first, attention_mask[:, 1:]], dim=1)
        states_BTD = self.backbone(input_ids=input_ids, attention_mask=attended_BT).last_hidden_state
        left_out = 0 if prompt_tokens is None else prompt_tokens
        return self.head(pool(states_BTD, attention_mask, self.pooling, left_out)), states_BTD


def convert_openvino(spec: ModelSpec) -> tuple[openvino.Model, Network]:
    """Trace a model into an OpenVINO graph of float32; the module it was traced from comes with it.

    Raises:
        ModelIntegrityError: weights that do not fit the configuration.
        EngineError: the model cannot be traced.
    """
    import openvino

    network = Network(spec)
    example = {"input_ids": torch.ones(2, 5, dtype=torch.int64), "attention_mask": torch.ones(2, 5, dtype=torch.int64)}
    shapes: list[Any] = [(name, [-1, -1], openvino.Type.i64) for name in example]
    if not spec.include_prompt:
        example["prompt_tokens"] = torch.tensor(1)
        shapes.append(("prompt_tokens", [], openvino.Type.i64))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the tracer's, of shapes that the inputs above fix
        try:
            graph = openvino.convert_model(network, example_input=example, input=shapes)
        except Exception as error:  # OpenVINO and the tracer raise all kinds
            raise EngineError(f"{spec.folder}: cannot be converted for OpenVINO: {error}") from error
    for port in graph.inputs:  # the tracer adds names of its own
        port.get_tensor().set_names(port.get_names() & set(example))
    graph.outputs[0].get_tensor().set_names({"vectors"})
    graph.outputs[1].get_tensor().set_names({"states"})
    return graph, network


def save_openvino(graph: openvino.Model, path: Path) -> None:
    """Write ``path`` (.xml) and its weights beside it (.bin), in the precision that the graph has."""
    import openvino

    openvino.save_model(graph, path, compress_to_fp16=False)


def probe_batches(spec: ModelSpec, tokenizer: TextTokenizer) -> list[Batch]:
    """Texts of all kinds and lengths to compare two engines with: each alone, and all in one padded batch."""
    texts = [*PROBES, *(" ".join(PROBES[2:] * repeats) for repeats in (1, 3))]
    tokens = tokenizer.encode(texts)
    prompt_tokens = 0 if spec.include_prompt else 2
    rows = [np.array([index]) for index in (0, 2, 8, len(texts) - 1)]
    return [tokens.batch(chosen, tokenizer.pad_id, prompt_tokens) for chosen in [*rows, np.arange(len(texts))]]


def reference_vectors(network: Network, batch: Batch) -> FloatArray:
    """What the torch modules give for a batch."""
    with torch.inference_mode():
        prompt = torch.tensor(batch.prompt_tokens) if batch.prompt_tokens else None
        vectors_BD, _ = network(torch.from_numpy(batch.ids_BT), torch.from_numpy(batch.mask_BT), prompt)
    found: FloatArray = vectors_BD.float().numpy()
    return found


def worst_cosine(a_BD: FloatArray, b_BD: FloatArray) -> float:
    """The smallest cosine of the rows of two arrays; rows of zeros in both agree. NaN counts as -1."""
    norms = np.linalg.norm(a_BD, axis=1) * np.linalg.norm(b_BD, axis=1)
    products = (a_BD.astype(np.float64) * b_BD).sum(axis=1)
    same = np.where(norms > 0, products / np.maximum(norms, 1e-30), np.all(a_BD == b_BD, axis=1))
    return float(np.nan_to_num(same, nan=-1.0).min())
