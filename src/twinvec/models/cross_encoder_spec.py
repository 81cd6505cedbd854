"""A cross-encoder's folder in the sentence-transformers format -> a checked ``ClassifierSpec``, without weights.

Two layouts are supported: a plain sequence-classification folder with its activation in ``config.json``
(sentence-transformers before 6), and one with ``modules.json`` (from 6 on). The score must come from a classification
head, not from a Dense module or from the logits of "yes" and "no".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import ModelIntegrityError, UnsupportedModelError
from twinvec.models.backbone import BackboneSpec, is_classifier, label_count, read_backbone, read_transformer_config
from twinvec.models.encoder_spec import read_modules
from twinvec.models.integrity import describe, optional_json


def _sigmoid(logits: FloatArray) -> FloatArray:
    decayed = np.exp(-np.abs(logits))  # the exponent is never positive, so nothing overflows
    return np.asarray(np.where(logits >= 0, 1, decayed) / (1 + decayed), dtype=np.float32)


def _identity(logits: FloatArray) -> FloatArray:
    return logits


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "torch.nn.modules.activation.Sigmoid": _sigmoid,
    "torch.nn.Sigmoid": _sigmoid,
    "torch.nn.modules.linear.Identity": _identity,
    "torch.nn.Identity": _identity,
}
"""Functions from logit to score, by their name in a configuration."""
LEAST_PAIR_TOKENS = 5
"""Smallest limit of a cross-encoder's input: three special tokens and one of each text."""


@dataclass(frozen=True)
class ClassifierSpec(BackboneSpec):
    """All settings of a cross-encoder, without its weights; ``activate`` turns logits into scores."""

    activate: Callable[[FloatArray], FloatArray]

    least_tokens: ClassVar[int] = LEAST_PAIR_TOKENS

    def probabilities(self, scores: FloatArray) -> FloatArray:
        """Return the logistic function of the logits behind these scores."""
        return scores if self.activate is _sigmoid else _sigmoid(scores)


def read_classifier(root: Path) -> ClassifierSpec:
    """Read and check a cross-encoder's folder; raises as ``encoder_spec.read_spec``.

    It refuses a model that is not a classifier, has several labels, or has an unknown activation.
    """
    modules = read_modules(root)
    if [kind for kind, _ in modules] != ["Transformer"]:
        raise UnsupportedModelError(
            f"{root / 'modules.json'}: the modules are {', '.join(kind for kind, _ in modules)}; expected a "
            "sequence classifier alone (an embedding model goes to Encoder and MaxSimReranker)"
        )
    folder = modules[0][1]
    backbone = read_backbone(folder, read_transformer_config(folder))
    config, path = backbone.config, folder / "config.json"
    if not is_classifier(config):
        raise UnsupportedModelError(
            f"{path}: architectures are {config.get('architectures')!r}; expected one for sequence classification"
        )
    labels = label_count(config, path)
    if labels != 1:
        raise UnsupportedModelError(f"{path}: the model has {labels} labels; a reranker has one")
    stated = root / "config_sentence_transformers.json"
    settings = optional_json(stated)
    prompts = settings.get("prompts") or {}
    if not isinstance(prompts, dict):
        raise ModelIntegrityError(f"{stated}: prompts are {prompts!r}, expected names with texts")
    if any(prompts.values()):
        raise UnsupportedModelError(f"{stated}: prompts are not supported for cross-encoders")
    return ClassifierSpec(**vars(backbone), activate=_activation({stated: settings, path: config}))


def _activation(files: dict[Path, dict[str, Any]]) -> Callable[[FloatArray], FloatArray]:
    """Return the activation that the first of the files states; errors name that file."""
    for path, settings in files.items():
        older = settings.get("sentence_transformers")
        stated = (
            settings.get("activation_fn")
            or (older.get("activation_fn") if isinstance(older, dict) else None)
            or settings.get("sbert_ce_default_activation_function")
        )
        if stated:
            if not isinstance(stated, str) or stated not in ACTIVATIONS:
                raise UnsupportedModelError(
                    f"{path}: activation {stated!r} is not supported; supported are {describe(ACTIVATIONS)}"
                )
            return ACTIVATIONS[stated]
    return ACTIVATIONS["torch.nn.Sigmoid"]
