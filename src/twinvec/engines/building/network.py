"""Descriptions of whole networks: encoders (vectors and states) and cross-encoders (logits).

Inputs and outputs are those of ``engines.tracing``. Legend: B texts, T tokens (padded), D dimension.
"""

from __future__ import annotations

from twinvec.arrays import FloatArray
from twinvec.engines.building.backbones import Backbone
from twinvec.engines.building.heads import pooled, vectors
from twinvec.engines.building.numpy import NumpyOperations
from twinvec.engines.building.operations import Node, Operations
from twinvec.models.backbone import BackboneSpec
from twinvec.models.encoder_spec import ModelSpec
from twinvec.models.tensors import Tensors
from twinvec.tokens.batching import Batch

_CLASSIFIERS = {  # model_type -> the layer before the last, its activation, the last layer
    "bert": ("pooler.dense", "Tanh", "classifier"),
    "distilbert": ("pre_classifier", "ReLU", "classifier"),
    "camembert": ("classifier.dense", "Tanh", "classifier.out_proj"),
    "mpnet": ("classifier.dense", "Tanh", "classifier.out_proj"),
    "roberta": ("classifier.dense", "Tanh", "classifier.out_proj"),
    "xlm-roberta": ("classifier.dense", "Tanh", "classifier.out_proj"),
}


class Network:
    """The network of a model, with its weights."""

    def __init__(self, spec: BackboneSpec, tensors: Tensors) -> None:
        self.spec = spec
        self._tensors = tensors

    @property
    def inputs(self) -> dict[str, int]:
        """Names and ranks of the inputs."""
        found = {"input_ids": 2, "attention_mask": 2}
        if isinstance(self.spec, ModelSpec):
            return found if self.spec.include_prompt else {**found, "prompt_tokens": 0}
        return {**found, "token_type_ids": 2} if self.spec.config["model_type"] == "bert" else found

    def describe(self, ops: Operations) -> dict[str, Node]:
        """Write the network with ``ops`` and return its outputs by name; raises as ``Backbone`` does."""
        spec = self.spec
        given = {name: ops.input(name, rank) for name, rank in self.inputs.items()}
        ids_BT, mask_BT = given["input_ids"], given["attention_mask"]
        backbone = Backbone(spec, self._tensors, ops)
        states_BTD = backbone.states(ids_BT, mask_BT, given.get("token_type_ids"))
        if isinstance(spec, ModelSpec):
            found = pooled(ops, states_BTD, mask_BT, spec, given.get("prompt_tokens"))
            return {"vectors": vectors(ops, found, spec), "states": states_BTD}
        before, activation, last = _CLASSIFIERS[spec.config["model_type"]]
        first_BD = ops.first(states_BTD)
        hidden_BD = ops.activation(backbone.linear(before, first_BD), activation)
        return {"logits": backbone.linear(last, hidden_BD, size=1)}

    @property
    def axes(self) -> dict[str, list[str | int]]:
        """The axes of each output: names of dynamic axes, sizes of fixed axes."""
        if not isinstance(self.spec, ModelSpec):
            return {"logits": ["batch", 1]}
        hidden = self.spec.config["dim" if self.spec.config["model_type"] == "distilbert" else "hidden_size"]
        return {"vectors": ["batch", self.spec.full_dim], "states": ["batch", "length", hidden]}

    def compute(self, batch: Batch) -> FloatArray:
        """Compute the vectors or logits by NumPy."""
        outputs = self.describe(NumpyOperations(batch.inputs))
        found: FloatArray = outputs[next(iter(outputs))]
        return found
