"""Pins the digests of spaces: of models, of cross-encoders, and of encoders that are not twinvec's.

A collection records the space of its model and refuses every other. A digest that changes, for the same weights and
settings, locks users out of every collection they have, and makes every export and cached graph a stranger's. The
digests of networks and graphs are what exports and caches are found by.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import models
from pins.pinning import check, cross_encoder_folder, encoder_folder
from twinvec import Encoder
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.models.cross_encoder_spec import read_classifier
from twinvec.models.encoder_spec import read_spec
from twinvec.models.space import classifier_digest, graph_digest, network_digest

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    **{kind: (kind, {}) for kind in models.BACKBONES},
    "cls": ("bert", {"pooling": ("cls",)}),
    "max": ("bert", {"pooling": ("max",)}),
    "weightedmean": ("bert", {"pooling": ("weightedmean",)}),
    "lasttoken": ("bert", {"pooling": ("lasttoken",)}),
    "mean and max": ("bert", {"pooling": ("mean", "max")}),
    "not normalised": ("bert", {"normalize": False}),
    "dense": ("bert", {"dense": ((16, "Tanh"),)}),
    "prompts": ("bert", {"prompts": {"query": "find: ", "document": "passage: "}}),
    "default prompt": ("bert", {"prompts": {"query": "find: "}, "default_prompt": "query"}),
    "prompts not pooled": ("bert", {"prompts": {"query": "find: "}, "include_prompt": False}),
    "lower case": ("roberta", {"lower_case": True}),
    "limit": ("bert", {"max_tokens": 20}),
    "truncated by the model": ("bert", {"truncate_dim": 8}),
}
OVERRIDES: dict[str, dict[str, Any]] = {
    "dim": {"dim": 12},
    "max_tokens": {"max_tokens": 10},
    "prompts": {"prompts": {"query": "q: "}},
    "default_prompt": {"prompts": {"query": "q: "}, "default_prompt": "query"},
}
CONFIG = (
    "architectures",
    "model_type",
    "vocab_size",
    "hidden_size",
    "hidden_act",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "max_position_embeddings",
    "type_vocab_size",
    "layer_norm_eps",
    "pad_token_id",
    "id2label",
)


def crossed(texts: list[str]) -> np.ndarray:
    """Vectors of an encoder that is not twinvec's."""
    return np.stack([np.random.RandomState(zlib.crc32(text.encode())).random_sample(24) - 0.5 for text in texts])


def values(folder: Path) -> dict[str, Any]:
    """Digests by name."""
    found: dict[str, Any] = {}
    for name, (kind, options) in MODELS.items():
        path = encoder_folder(folder / name.replace(" ", "_"), kind, **options)
        spec = read_spec(path)
        network = network_digest(spec)
        found[name] = {"space": Encoder(path).space, "network": network, "graph": graph_digest(spec, network)}
    for name, given in OVERRIDES.items():
        found[f"bert with {name} given"] = {"space": Encoder(folder / "bert", **given).space}
    found["default"] = {"space": Encoder("default").space}
    found["default, 128 dimensions"] = {"space": Encoder("default", dim=128).space}
    for kind in ("bert", "roberta"):
        path = cross_encoder_folder(folder / f"cross-{kind}", kind)
        found[f"cross-encoder {kind}"] = {"digest": _digest(path)}
    found["foreign"] = {"space": ExternalEncoder("foreign", crossed, lambda texts: -crossed(texts)).space}
    return found


def _digest(path: Path) -> str:
    """The digest, whose configuration holds none of the fields that come and go with versions of ``transformers``."""
    config = path / "config.json"
    settings = json.loads(config.read_text())
    config.write_text(json.dumps({key: settings[key] for key in CONFIG}))
    return classifier_digest(read_classifier(path))


def test_the_digests_are_those_of_before(tmp_path):
    check("spaces", values(tmp_path))
