"""The backbone of encoders and cross-encoders: its settings, whether it is supported, and its limit of tokens.

The settings come from ``config.json`` and from the Transformer module's ``sentence_bert_config.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from twinvec.errors import ConfigurationError, ModelIntegrityError, UnsupportedModelError
from twinvec.models.integrity import describe, optional_json, read_object
from twinvec.support.checks import integer

BACKBONES = {"bert", "camembert", "distilbert", "modernbert", "mpnet", "roberta", "xlm-roberta"}
"""``model_type`` of the supported backbones (MiniLM models are of type bert or xlm-roberta)."""
LEAST_TOKENS = 3
"""Smallest limit of an encoder's input: two special tokens and one of the text."""

OFFSET_POSITIONS = {"camembert", "roberta", "xlm-roberta", "mpnet"}
"""Backbones whose positions start after the padding id."""

_ABSOLUTE_POSITIONS = BACKBONES - {"modernbert"}  # backbones with a table of positions

CROSS_ENCODER_HINT = (
    "for a cross-encoder, use CrossEncoderReranker or 'twinvec evaluate MODEL --ir DIR --rerank FOLDER'"
)
"""The end of errors and warnings about a cross-encoder that is used as an encoder."""

_SUPPORTED_SETTINGS: dict[str, tuple[Any, ...]] = {  # settings that change vectors -> supported values
    "transformer_task": (None, "feature-extraction"),
    "module_output_name": (None, "token_embeddings"),
    "modality_config": (None, {}, {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}),
    "query_length": (None,),
    "document_length": (None,),
    "query_expansion": (None, False),
}


_ARGUMENTS = ("model_args", "model_kwargs", "tokenizer_args", "processor_kwargs", "config_args", "config_kwargs")
"""Settings of the Transformer module that sentence-transformers passes to transformers as keyword arguments."""
_IDLE_ARGUMENTS = {
    "add_pooling_layer",
    "attn_implementation",
    "dtype",
    "local_files_only",
    "padding_side",
    "revision",
    "torch_dtype",
    "trust_remote_code",
    "use_fast",
    "use_safetensors",
}
"""Arguments that do not change vectors in float32."""


@dataclass(frozen=True)
class BackboneSpec:
    """Settings of a backbone and of its input; ``folder`` also holds ``config.json`` (``config``) and the tokenizer.

    An input is truncated to ``max_tokens`` tokens, special tokens included; the backbone reads at most ``positions``.
    ``lower_case`` lower-cases texts before the tokenizer's own normalisation.
    """

    folder: Path
    config: dict[str, Any]
    max_tokens: int
    lower_case: bool
    positions: int

    least_tokens: ClassVar[int] = LEAST_TOKENS

    def with_max_tokens(self, max_tokens: int | None) -> Self:
        """Return the settings with another token limit; None keeps the present limit.

        Raise ConfigurationError for a limit below ``least_tokens`` or above ``positions``.
        """
        if max_tokens is None:
            return self
        if not self.least_tokens <= integer(max_tokens, "max_tokens") <= self.positions:
            raise ConfigurationError(
                f"max_tokens must lie between {self.least_tokens} and the model's {self.positions} positions, "
                f"got {max_tokens}"
            )
        return replace(self, max_tokens=int(max_tokens))


def read_backbone(folder: Path, sentence_config: dict[str, Any]) -> BackboneSpec:
    """Read and check a backbone's ``config.json``; ``sentence_config`` is from ``read_transformer_config``.

    Raise ModelIntegrityError for malformed settings, and UnsupportedModelError for an adapter, a ``model_type`` that is
    not in ``BACKBONES``, or a setting that changes the states and is not supported.
    """
    _refuse_adapter(folder)
    path = folder / "config.json"
    config = read_object(path)
    _refuse_backbone(path, config)
    _refuse_arguments(folder / "sentence_bert_config.json", sentence_config)
    for key in ("max_position_embeddings", "pad_token_id"):
        if not isinstance(config.get(key, 0), int):
            raise ModelIntegrityError(f"{path}: {key} is {config[key]!r}, expected a whole number")
    positions = position_limit(config)
    if positions < LEAST_TOKENS:
        raise ModelIntegrityError(
            f"{path}: max_position_embeddings is {config['max_position_embeddings']}, which leaves no room for text"
        )
    return BackboneSpec(
        folder=folder,
        config=config,
        max_tokens=_max_input_tokens(folder, sentence_config, positions),
        lower_case=bool(sentence_config.get("do_lower_case", False)),
        positions=positions,
    )


def _refuse_adapter(folder: Path) -> None:
    """Raise UnsupportedModelError for an adapter, which sentence-transformers saves without the model's own files."""
    adapter = folder / "adapter_config.json"
    if adapter.is_file():
        raise UnsupportedModelError(
            f"{adapter}: adapters are not supported; merge the adapter into the model's weights: load the base model "
            "with sentence-transformers, set model[0].auto_model = peft.PeftModel.from_pretrained("
            "model[0].auto_model, ADAPTER).merge_and_unload(), and save it with model.save_pretrained(FOLDER)"
        )


def _refuse_backbone(path: Path, config: dict[str, Any]) -> None:
    code = "; the model has code of its own (auto_map), which twinvec does not run" if "auto_map" in config else ""
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in BACKBONES:
        raise UnsupportedModelError(
            f"{path}: backbone {kind!r} is not supported; supported are {describe(BACKBONES)}{code}"
        )
    positions = config.get("position_embedding_type", "absolute")
    if kind in _ABSOLUTE_POSITIONS and positions not in (None, "absolute"):  # transformers ignores the setting
        raise UnsupportedModelError(
            f"{path}: position_embedding_type {positions!r} is not supported; expected 'absolute'{code}"
        )
    for key in ("is_decoder", "add_cross_attention", "quantization_config"):
        if config.get(key):
            raise UnsupportedModelError(f"{path}: {key} {config[key]!r} is not supported")


def _refuse_arguments(path: Path, sentence_config: dict[str, Any]) -> None:
    if sentence_config.get("processing_kwargs"):
        raise UnsupportedModelError(
            f"{path}: processing_kwargs {sentence_config['processing_kwargs']!r} is not supported"
        )
    for key in _ARGUMENTS:
        arguments = sentence_config.get(key) or {}
        if not isinstance(arguments, dict) or arguments.keys() - _IDLE_ARGUMENTS:
            raise UnsupportedModelError(f"{path}: {key} {arguments!r} is not supported")


def _max_input_tokens(folder: Path, sentence_config: dict[str, Any], positions: int) -> int:
    """Return the token limit that the Transformer module or the tokenizer states, at most ``positions``."""
    path, key = folder / "sentence_bert_config.json", "max_seq_length"
    stated = optional_limit(sentence_config, key, path)
    if stated is None:
        path, key = folder / "tokenizer_config.json", "model_max_length"
        stated = optional_limit(optional_json(path), key, path)
    if stated is not None and stated < LEAST_TOKENS:
        raise ModelIntegrityError(f"{path}: {key} is {stated}, which leaves no room for text between special tokens")
    return min(stated or positions, positions)


def position_limit(config: dict[str, Any]) -> int:
    """Return the number of tokens that the backbone has positions for."""
    positions: int = config.get("max_position_embeddings", 512)
    if config["model_type"] in OFFSET_POSITIONS:
        positions -= config.get("pad_token_id", 1) + 1
    return positions


def read_transformer_config(folder: Path) -> dict[str, Any]:
    """Return the Transformer module's own settings. Old folders name the file after the backbone."""
    for kind in ("bert", "roberta", "distilbert", "xlm-roberta", "camembert"):
        path = folder / f"sentence_{kind}_config.json"
        if path.is_file():
            return read_object(path)
    return {}


def refuse_settings(folder: Path, sentence_config: dict[str, Any]) -> None:
    """Raise UnsupportedModelError for a setting of the Transformer module that changes vectors and is not supported."""
    path = folder / "sentence_bert_config.json"
    if sentence_config.get("transformer_task") == "sequence-classification":
        raise UnsupportedModelError(
            f"{path}: the model is a cross-encoder, which scores pairs of texts and has no vectors (transformer_task "
            f"'sequence-classification'); expected an embedding model; {CROSS_ENCODER_HINT}"
        )
    for key, supported in _SUPPORTED_SETTINGS.items():
        if sentence_config.get(key) not in supported:
            raise UnsupportedModelError(f"{path}: {key} {sentence_config[key]!r} is not supported")


def is_classifier(config: dict[str, Any]) -> bool:
    """Whether a backbone's ``config.json`` names an architecture for sequence classification."""
    names = config.get("architectures")
    return isinstance(names, list) and any(str(name).endswith("ForSequenceClassification") for name in names)


def label_count(config: dict[str, Any], path: Path) -> int:
    """Return the number of a classifier's labels; raise ModelIntegrityError if ``config.json`` states it wrongly."""
    named = config.get("id2label")
    if named is not None and not isinstance(named, dict):
        raise ModelIntegrityError(f"{path}: id2label is {named!r}, expected an object with a name for each label")
    if named:
        return len(named)
    return positive(config, "num_labels", path) if "num_labels" in config else 2  # the default of transformers


def positive(config: dict[str, Any], key: str, path: Path) -> int:
    """Return a setting; refuse one that is not a whole number of at least 1."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelIntegrityError(f"{path}: {key} is {value!r}, expected a whole number of at least 1")
    return value


def optional_limit(config: dict[str, Any], key: str, path: Path) -> int | None:
    """Return a limit, or None if it is absent; some libraries write the float 1e30 for an absent one."""
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 1:
        raise ModelIntegrityError(f"{path}: {key} is {value!r}, expected a number of at least 1")
    return int(value) if value < 1e18 else None
