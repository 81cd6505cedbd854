"""The space digest: a hash of everything that decides a model's vectors.

The digest covers tensors and canonical settings, not the bytes of files. It stays the same if a model is saved again
with other file names, tensor prefixes or library versions. It leaves out everything that does not change the vectors:
dropout, an unused pooler, the engine, the precision.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from twinvec.errors import ModelIntegrityError
from twinvec.models.cross_encoder_spec import ClassifierSpec
from twinvec.models.encoder_spec import Dense, ModelSpec
from twinvec.models.integrity import loaded_weights, sha256
from twinvec.models.tensors import Tensors

_UNUSED = re.compile(
    r"^(pooler|cls|lm_head|classifier|pre_classifier|qa_outputs|head|decoder|vocab_\w+)\b|position_ids$"
)
_BERT = {"num_attention_heads": 12, "hidden_act": "gelu", "layer_norm_eps": 1e-12}
_DEFAULTS: dict[str, dict[str, Any]] = {  # backbone -> the settings that its tensors do not show, with their defaults
    "bert": _BERT,
    "roberta": {**_BERT, "pad_token_id": 1},
    "xlm-roberta": {**_BERT, "pad_token_id": 1},
    "camembert": {**_BERT, "pad_token_id": 1},
    "mpnet": {**_BERT, "pad_token_id": 1},
    "distilbert": {"n_heads": 12, "activation": "gelu"},
    "modernbert": {"num_attention_heads": 12, "hidden_activation": "gelu", "norm_eps": 1e-5, "local_attention": 128},
}
SPACE_PROBES = (
    "",
    " ",
    "The quick brown fox jumps over the lazy dog.",
    "MiXeD CaSe ÀÉÎÕÜ straße İstanbul",
    "e\u0301 cafe\u0301",
    "3.14159 1,000,000 2026-11-21",
    "don't re-use e-mail@example.com https://example.com/?q=1",
    "a\tb\nc\r\nd  e",
    "日本語のテキスト 中文 한국어",
    "العربية עברית हिन्दी ไทย",
    "👩‍👩‍👧 🎉 ﬁ ① ½",
    "def f(x): return x**2 # code",
    "[CLS] [SEP] [MASK] <s> </s> <mask>",
    "antidisestablishmentarianism pneumonoultramicroscopic",
    "\u00a0\u200b\ufeff",
)
"""Texts of all kinds, whose token ids distinguish tokenizers."""


def space_digest(spec: ModelSpec, tokenizer: str, network: str) -> str:
    """Return the sha256 of a model's space; ``tokenizer`` is ``TextTokenizer.identity`` for ``SPACE_PROBES``."""
    settings = {
        "network": network,
        "tokenizer": tokenizer,
        "lower_case": spec.lower_case,
        "include_prompt": spec.include_prompt or not any(spec.prompts.values()),
        "prompts": {name: text for name, text in spec.prompts.items() if text},
        "default_prompt": spec.default_prompt if spec.prompts.get(spec.default_prompt or "") else None,
        "max_tokens": spec.max_tokens,
        "dim": spec.dim,
    }
    return hashlib.sha256(b"twinvec-space-1" + json.dumps(settings, sort_keys=True).encode()).hexdigest()


def network_digest(spec: ModelSpec) -> str:
    """Return the sha256 of a network: its tensors, backbone settings, pooling and head.

    Raise ModelIntegrityError if a tensor or a setting is missing or malformed.
    """
    digest = hashlib.sha256(b"twinvec-network-1")
    try:
        backbone = backbone_settings(spec.config)
    except (AttributeError, LookupError, TypeError, ValueError, ZeroDivisionError) as error:
        path = spec.folder / "config.json"
        raise ModelIntegrityError(
            f"{path}: the settings of attention are malformed: {type(error).__name__}: {error}"
        ) from error
    settings = {
        "backbone": backbone,
        "pooling": spec.pooling,
        "head": [
            [step.in_features, step.out_features, step.activation] if isinstance(step, Dense) else "normalize"
            for step in spec.head
        ],
    }
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for folder in (spec.folder, *(step.folder for step in spec.head if isinstance(step, Dense))):
        with Tensors(folder) as tensors:
            for name in tensors.names:
                if not _UNUSED.search(name):
                    values = tensors.read(name)
                    digest.update(f"{name}{values.shape}".encode())
                    digest.update(values.data)
    return digest.hexdigest()


def graph_digest(spec: ModelSpec, network: str) -> str:
    """Return the sha256 of an encoder's graph: its network, and whether prompt tokens are an input."""
    return hashlib.sha256(f"twinvec-graph-1 {network} {spec.include_prompt}".encode()).hexdigest()


def classifier_digest(spec: ClassifierSpec) -> str:
    """Return the sha256 of a cross-encoder's graph: its ``config.json`` and the bytes of its weights."""
    weights = {path.name: sha256(path) for path in loaded_weights(spec.folder)}
    identity = json.dumps([spec.config, weights], sort_keys=True)
    return hashlib.sha256(b"twinvec-classifier-1" + identity.encode()).hexdigest()


def backbone_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that a backbone's tensors do not show, with the defaults of transformers."""
    kind = config["model_type"]
    settings = {key: config.get(key, default) for key, default in _DEFAULTS[kind].items()}
    attention = _modernbert_attention(config) if kind == "modernbert" else {}
    return {"model_type": kind, **settings, **attention}


def _modernbert_attention(config: dict[str, Any]) -> dict[str, Any]:
    """Return each layer's kind of attention and the rotation bases, from either layout of the configuration."""
    every = int(config.get("global_attn_every_n_layers", 3))
    layers = config.get("layer_types") or [
        "sliding_attention" if index % every else "full_attention"
        for index in range(config.get("num_hidden_layers", 22))
    ]
    rope = config.get("rope_parameters") or {}
    thetas = {
        "full_attention": config.get("global_rope_theta", 160000.0),
        "sliding_attention": config.get("local_rope_theta", 10000.0),
    }
    thetas |= {kind: values["rope_theta"] for kind, values in rope.items() if isinstance(values, dict)}
    return {"layer_types": list(layers), "rope_parameters": {kind: float(theta) for kind, theta in thetas.items()}}
