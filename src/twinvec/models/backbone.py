"""The settings of a backbone, as its own files and those of the Transformer module around it say them.

What a bi-encoder and a cross-encoder have in common: which backbones there are, and how many tokens go in.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinvec.errors import ModelIntegrityError, UnsupportedModelError
from twinvec.models.integrity import describe, optional_json, read_object

BACKBONES = {"bert", "distilbert", "modernbert", "mpnet", "roberta", "xlm-roberta"}
"""``model_type`` of the supported backbones (MiniLM models are of type bert or xlm-roberta)."""
LEAST_TOKENS = 3
"""Fewest tokens an input limit may leave: two special ones, and one of the text."""

_TRANSFORMER_CONFIGS = (
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_xlm-roberta_config.json",
)
_OFFSET_POSITIONS = {"roberta", "xlm-roberta", "mpnet"}  # positions start after the padding id
_TRANSFORMER_SETTINGS: dict[str, tuple[Any, ...]] = {  # those that change vectors, and what is supported
    "transformer_task": (None, "feature-extraction"),
    "module_output_name": (None, "token_embeddings"),
    "modality_config": (None, {}, {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}),
    "processing_kwargs": (None, {}),
    "query_length": (None,),
    "document_length": (None,),
    "query_expansion": (None, False),
}


def read_backbone_config(folder: Path) -> dict[str, Any]:
    """The backbone's ``config.json``, if its ``model_type`` is supported."""
    path = folder / "config.json"
    config = read_object(path)
    kind = config.get("model_type")
    if kind not in BACKBONES:
        raise UnsupportedModelError(f"{path}: backbone {kind!r} is not supported; supported are {describe(BACKBONES)}")
    for key in ("max_position_embeddings", "pad_token_id"):
        if not isinstance(config.get(key, 0), int):
            raise ModelIntegrityError(f"{path}: {key} is {config[key]!r}, expected a whole number")
    return config


def refuse_settings(folder: Path, config: dict[str, Any], sentence_config: dict[str, Any]) -> None:
    """Refuse what would change the vectors and is not done here."""
    if (folder / "adapter_config.json").is_file():
        raise UnsupportedModelError(
            f"{folder / 'adapter_config.json'}: adapters are not supported; merge it into the model's weights"
        )
    for key in ("is_decoder", "add_cross_attention", "quantization_config"):
        if config.get(key):
            raise UnsupportedModelError(f"{folder / 'config.json'}: {key} {config[key]!r} is not supported")
    for key, supported in _TRANSFORMER_SETTINGS.items():
        if sentence_config.get(key) not in supported:
            raise UnsupportedModelError(
                f"{folder / 'sentence_bert_config.json'}: {key} {sentence_config[key]!r} is not supported"
            )


def read_transformer_config(folder: Path) -> dict[str, Any]:
    """The Transformer module's own settings; the file is named after the backbone in folders of old."""
    for name in _TRANSFORMER_CONFIGS:
        if (folder / name).is_file():
            return optional_json(folder / name)
    return {}


def max_input_tokens(folder: Path, config: dict[str, Any], sentence_config: dict[str, Any]) -> int:
    """The input limit in tokens: the module's or the tokenizer's, and never more than the backbone has positions."""
    positions = position_limit(config)
    path, key = folder / "sentence_bert_config.json", "max_seq_length"
    stated = limit(sentence_config, key, path)
    if stated is None:
        path, key = folder / "tokenizer_config.json", "model_max_length"
        stated = limit(optional_json(path), key, path)
    if stated is not None and stated < LEAST_TOKENS:
        raise ModelIntegrityError(f"{path}: {key} is {stated}, which leaves no room for text between special tokens")
    return min(stated or positions, positions)


def position_limit(config: dict[str, Any]) -> int:
    """How many tokens the backbone has positions for."""
    positions: int = config.get("max_position_embeddings", 512)
    if config["model_type"] in _OFFSET_POSITIONS:
        positions -= config.get("pad_token_id", 1) + 1
    return positions


def positive(config: dict[str, Any], key: str, path: Path) -> int:
    """A whole number from 1."""
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ModelIntegrityError(f"{path}: {key} is {value!r}, expected a whole number from 1")
    return value


def limit(config: dict[str, Any], key: str, path: Path) -> int | None:
    """A limit that may be absent; some libraries write "none" as 1e30, a float."""
    value = config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 1:
        raise ModelIntegrityError(f"{path}: {key} is {value!r}, expected a number from 1")
    return int(value) if value < 1e18 else None
