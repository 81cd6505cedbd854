"""Descriptions of the BERT family's backbones: from token ids, mask and segments to the last layer's states.

They follow transformers' BERT (Devlin et al. 2019), DistilBERT, RoBERTa, XLM-RoBERTa, CamemBERT and MPNet, whose
attention adds a bias for each distance of two tokens (Song et al. 2020, as in T5). Legend: B texts, T tokens (padded),
D dimension, H heads, P positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, IntArray
from twinvec.engines.building.operations import ACTIVATIONS, MASKED, Node, Operations
from twinvec.errors import ModelIntegrityError
from twinvec.models.backbone import OFFSET_POSITIONS, BackboneSpec
from twinvec.models.space import backbone_settings
from twinvec.models.tensors import Tensors

_BUCKETS, _FARTHEST = 32, 128  # number of buckets, and largest distance, of MPNet's positions; fixed in transformers


@dataclass(frozen=True, slots=True)
class _Names:
    """Names of a layer's tensors, after ``layer`` and the layer's number."""

    layer: str
    query: str
    key: str
    value: str
    output: str
    attention_norm: str
    inner: str
    outer: str
    norm: str


_BERT = _Names(
    "encoder.layer",
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)
_MPNET = replace(
    _BERT,
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    output="attention.attn.o",
    attention_norm="attention.LayerNorm",
)
_DISTILBERT = _Names(
    "transformer.layer",
    "attention.q_lin",
    "attention.k_lin",
    "attention.v_lin",
    "attention.out_lin",
    "sa_layer_norm",
    "ffn.lin1",
    "ffn.lin2",
    "output_layer_norm",
)
_NAMES = {
    **dict.fromkeys(("bert", "camembert", "roberta", "xlm-roberta"), _BERT),
    "mpnet": _MPNET,
    "distilbert": _DISTILBERT,
}


def missing_part(config: dict[str, Any]) -> str | None:
    """Return the setting of ``config.json`` that the descriptions do not cover; None if they cover the backbone."""
    kind = config["model_type"]
    if kind not in _NAMES:
        return f"backbone {kind!r}"
    activation = _settings(config)["activation"]
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        return f"activation {activation!r}"
    return None


def can_build(spec: BackboneSpec) -> bool:
    """Whether the descriptions cover a model; ``engines.tracing`` covers all others, with torch."""
    return missing_part(spec.config) is None


class Backbone:
    """The backbone of a model, with its weights; ``operations`` writes it into a graph or computes it.

    ``Backbone(...)`` raises ModelIntegrityError if the configuration is inconsistent, and ``states`` raises it if a
    tensor is missing or does not have the shape that the configuration implies.
    """

    def __init__(self, spec: BackboneSpec, tensors: Tensors, operations: Operations) -> None:
        self._config, self._tensors, self._ops = spec.config, tensors, operations
        self._names = _NAMES[spec.config["model_type"]]
        settings = _settings(spec.config)
        path = spec.folder / "config.json"
        for name in ("hidden", "heads", "layers", "inner"):
            if not isinstance(settings[name], int) or isinstance(settings[name], bool) or settings[name] < 1:
                raise ModelIntegrityError(f"{path}: the number of {name} is {settings[name]!r}, expected at least 1")
        epsilon = settings["epsilon"]
        if not isinstance(epsilon, (int, float)) or not epsilon >= 0:
            raise ModelIntegrityError(f"{path}: layer_norm_eps is {epsilon!r}, expected a number of at least 0")
        self._hidden, self._heads = settings["hidden"], settings["heads"]
        self._layers, self._inner = settings["layers"], settings["inner"]
        self._activation, self._epsilon = ACTIVATIONS[settings["activation"]], float(epsilon)
        self._pad_id = settings["pad"]
        if self._hidden % self._heads:
            raise ModelIntegrityError(
                f"{path}: the hidden size {self._hidden} is not divisible by the {self._heads} heads"
            )

    def states(self, ids_BT: Node, mask_BT: Node, types_BT: Node | None = None) -> Node:
        """Return the states (B, T, D). A row without tokens attends to one padding token, to avoid NaN."""
        ops = self._ops
        positions_T = ops.positions(ids_BT)
        attended_BT = ops.maximum(mask_BT, ops.equal(positions_T, ops.constant(np.array(0))))
        masked_BT = ops.multiply(
            ops.add(ops.to_float(attended_BT), ops.constant(np.array(-1, dtype=np.float32))),
            ops.constant(np.array(-MASKED)),
        )
        bias = ops.reshape(masked_BT, (0, 1, 1, -1))
        if self._config["model_type"] == "mpnet":
            bias = ops.add(bias, self._distance_bias(positions_T))
        states_BTD = self._embeddings(ids_BT, positions_T, types_BT)
        for number in range(self._layers):
            states_BTD = self._layer(number, states_BTD, bias)
        return states_BTD

    def linear(self, name: str, node: Node, size: int | None = None, inputs: int | None = None) -> Node:
        """Apply the linear layer ``name``: from ``inputs`` to ``size`` numbers (default: the hidden size for both)."""
        size, inputs = size or self._hidden, inputs or self._hidden
        weight = self._tensors.keep(f"{name}.weight", (size, inputs))
        return self._ops.linear(node, weight, self._tensors.keep(f"{name}.bias", (size,)))

    def _embeddings(self, ids_BT: Node, positions_T: Node, types_BT: Node | None) -> Node:
        ops = self._ops
        words_VD = self._table("word_embeddings", self._config.get("vocab_size"))
        positions_PD = self._table("position_embeddings", self._config.get("max_position_embeddings"))
        sum_BTD = ops.rows(ops.constant(words_VD), ids_BT)
        if self._names is _BERT:
            types_SD = self._table("token_type_embeddings", self._config.get("type_vocab_size"))
            segments = types_SD[0] if types_BT is None else types_SD
            node = ops.constant(segments)
            sum_BTD = ops.add(sum_BTD, node if types_BT is None else ops.rows(node, types_BT))
        if self._config["model_type"] in OFFSET_POSITIONS:
            pad = ops.constant(np.array(self._pad_id))
            padding_BT = ops.equal(ids_BT, pad)
            counts_BT = ops.add(ops.constant(np.array(1)), ops.multiply(padding_BT, ops.constant(np.array(-1))))
            positions_T = ops.add(ops.multiply(ops.running_sum(counts_BT), counts_BT), pad)
        sum_BTD = ops.add(sum_BTD, ops.rows(ops.constant(positions_PD), positions_T))
        return self._norm("embeddings.LayerNorm", sum_BTD)

    def _layer(self, number: int, states_BTD: Node, bias: Node) -> Node:
        ops, names = self._ops, self._names
        prefix, size = f"{names.layer}.{number}", self._hidden // self._heads

        def heads(name: str) -> Node:
            split_BTHD = ops.reshape(self.linear(f"{prefix}.{name}", states_BTD), (0, 0, self._heads, size))
            return ops.transpose(split_BTHD, (0, 2, 1, 3))

        attended_BHTD = ops.attention(heads(names.query), heads(names.key), heads(names.value), bias, size)
        joined_BTD = ops.reshape(ops.transpose(attended_BHTD, (0, 2, 1, 3)), (0, 0, self._hidden))
        joined_BTD = ops.add(self.linear(f"{prefix}.{names.output}", joined_BTD), states_BTD)
        states_BTD = self._norm(f"{prefix}.{names.attention_norm}", joined_BTD)
        inner = ops.activation(self.linear(f"{prefix}.{names.inner}", states_BTD, self._inner), self._activation)
        outer_BTD = self.linear(f"{prefix}.{names.outer}", inner, inputs=self._inner)
        return self._norm(f"{prefix}.{names.norm}", ops.add(outer_BTD, states_BTD))

    def _norm(self, name: str, node: Node) -> Node:
        weight, bias = (self._tensors.keep(f"{name}.{part}", (self._hidden,)) for part in ("weight", "bias"))
        return self._ops.layer_norm(node, weight, bias, self._epsilon)

    def _table(self, name: str, rows: int | None) -> FloatArray:
        name = f"embeddings.{name}.weight"
        if rows is None:
            rows = len(self._tensors.read(name))
        return self._tensors.keep(name, (rows, self._hidden))

    def _distance_bias(self, positions_T: Node) -> Node:
        ops = self._ops
        rows = self._config.get("relative_attention_num_buckets", _BUCKETS)
        buckets = self._tensors.keep("encoder.relative_attention_bias.weight", (rows, self._heads))
        farthest = int(self._config.get("max_position_embeddings", 512))
        distances = np.arange(-farthest, farthest + 1)
        table = ops.constant(buckets[_distance_buckets(distances)])
        to_T1 = ops.reshape(positions_T, (-1, 1))
        apart_TT = ops.add(positions_T, ops.multiply(to_T1, ops.constant(np.array(-1))))
        bias_TTH = ops.rows(table, ops.add(apart_TT, ops.constant(np.array(farthest))))
        return ops.reshape(ops.transpose(bias_TTH, (2, 0, 1)), (1, self._heads, 0, -1))


def _distance_buckets(distances: IntArray) -> IntArray:
    """Return the row of MPNet's table for each distance of a key from its query."""
    half = _BUCKETS // 2
    exact = half // 2
    far = np.abs(distances).astype(np.float32)
    scaled = np.log(np.maximum(far, 1) / exact) / math.log(_FARTHEST / exact) * (half - exact)
    large = np.minimum(exact + scaled.astype(np.int64), half - 1)
    return np.asarray((distances > 0) * half + np.where(far < exact, np.abs(distances), large))


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes and settings of a backbone by names of our own, with the defaults of transformers."""
    distilled = config["model_type"] == "distilbert"
    stated = backbone_settings(config)
    return {
        "hidden": config.get("dim" if distilled else "hidden_size", 768),
        "inner": config.get("hidden_dim" if distilled else "intermediate_size", 3072),
        "layers": config.get("n_layers" if distilled else "num_hidden_layers", 6 if distilled else 12),
        "heads": stated.get("n_heads" if distilled else "num_attention_heads"),
        "activation": stated.get("activation" if distilled else "hidden_act"),
        "epsilon": stated.get("layer_norm_eps", 1e-12),
        "pad": 1 if config["model_type"] == "mpnet" else stated.get("pad_token_id", 0),  # MPNet's padding id is fixed
    }
