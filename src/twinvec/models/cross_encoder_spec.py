"""A cross-encoder's folder in the sentence-transformers format -> a checked ``ClassifierSpec``.

Reads settings only, never weights. Both layouts are known: a plain sequence-classification folder with its
activation in ``config.json`` (sentence-transformers before 6), and the one with ``modules.json`` (from 6 on). Models
whose score comes from anything else than a classification head (a Dense module, the logits of "yes" and "no") are
refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError, UnsupportedModelError
from twinvec.models.backbone import max_input_tokens, position_limit, read_backbone_config, read_transformer_config
from twinvec.models.encoder_spec import read_modules
from twinvec.models.integrity import describe, optional_json
from twinvec.support.checks import integer


def _sigmoid(logits: FloatArray) -> FloatArray:
    # exp of a negative number only: no overflow on either side
    decayed = np.exp(-np.abs(logits))
    values: FloatArray = (np.where(logits >= 0, 1, decayed) / (1 + decayed)).astype(np.float32)
    return values


def _identity(logits: FloatArray) -> FloatArray:
    return logits


ACTIVATIONS: dict[str, Callable[[FloatArray], FloatArray]] = {
    "torch.nn.modules.activation.Sigmoid": _sigmoid,
    "torch.nn.Sigmoid": _sigmoid,
    "torch.nn.modules.linear.Identity": _identity,
    "torch.nn.Identity": _identity,
}
"""From logit to score, by the name in a configuration."""
LEAST_PAIR_TOKENS = 5
"""Fewest tokens an input limit may leave: three special ones, and one of each text."""


@dataclass(frozen=True, slots=True)
class ClassifierSpec:
    """All settings of a cross-encoder; the weights aside.

    Attributes:
        folder: Where the model, its configuration and the tokenizer lie.
        config: The backbone's ``config.json``.
        max_tokens: Longest pair in tokens, special tokens included.
        lower_case: Lower-case before the tokenizer's own normalisation.
        activate: From logits to scores.
        positions: Longest input that the backbone has positions for.
    """

    folder: Path
    config: dict[str, Any]
    max_tokens: int
    lower_case: bool
    activate: Callable[[FloatArray], FloatArray]
    positions: int

    def override(self, max_tokens: int | None) -> ClassifierSpec:
        """The same model with another limit, where given.

        Raises:
            ConfigurationError: a limit that the model cannot have.
        """
        if max_tokens is None:
            return self
        if not LEAST_PAIR_TOKENS <= integer(max_tokens, "max_tokens") <= self.positions:
            raise ConfigurationError(
                f"max_tokens must lie between {LEAST_PAIR_TOKENS} and the model's {self.positions} positions, "
                f"got {max_tokens}"
            )
        return replace(self, max_tokens=int(max_tokens))


def read_classifier(root: Path) -> ClassifierSpec:
    """Read and check a cross-encoder's folder.

    Raises:
        ModelIntegrityError: a file is missing, malformed, or points outside the folder; the message names it.
        UnsupportedModelError: no classifier, more than one label, or an activation outside the closed list.
    """
    modules = read_modules(root)
    if [kind for kind, _ in modules] != ["Transformer"]:
        raise UnsupportedModelError(
            f"{root / 'modules.json'}: the modules are {', '.join(kind for kind, _ in modules)}; expected a "
            "sequence classifier alone (an embedding model goes to Encoder and MaxSimReranker)"
        )
    folder = modules[0][1]
    config = read_backbone_config(folder)
    path = folder / "config.json"
    if not any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ()):
        raise UnsupportedModelError(
            f"{path}: architectures are {config.get('architectures')!r}; expected one for sequence classification"
        )
    labels = len(config.get("id2label") or (0, 1))  # two is the library's default
    if labels != 1:
        raise UnsupportedModelError(f"{path}: the model has {labels} labels; a reranker has one")
    settings = optional_json(root / "config_sentence_transformers.json")
    if any((settings.get("prompts") or {}).values()):
        raise UnsupportedModelError(
            f"{root / 'config_sentence_transformers.json'}: prompts are not supported for cross-encoders"
        )
    sentence_config = read_transformer_config(folder)
    return ClassifierSpec(
        folder=folder,
        config=config,
        max_tokens=max_input_tokens(folder, config, sentence_config),
        lower_case=bool(sentence_config.get("do_lower_case", False)),
        activate=_activation(settings, config, path),
        positions=position_limit(config),
    )


def _activation(settings: dict[str, Any], config: dict[str, Any], path: Path) -> Callable[[FloatArray], FloatArray]:
    stated = (
        settings.get("activation_fn")
        or (config.get("sentence_transformers") or {}).get("activation_fn")
        or config.get("sbert_ce_default_activation_function")
        or "torch.nn.Sigmoid"
    )
    if stated not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"{path}: activation {stated!r} is not supported; supported are {describe(ACTIVATIONS)}"
        )
    return ACTIVATIONS[stated]
