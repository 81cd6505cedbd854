"""The space digest: recorded values, equal after saving again, different with all that decides a vector."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from importlib.metadata import version

import numpy as np
import pytest
from packaging.version import Version
from safetensors.numpy import load_file, save_file

import models
from twinvec import Encoder
from twinvec.models.cross_encoder_spec import ClassifierSpec
from twinvec.models.encoder_spec import Dense, ModelSpec, Normalize
from twinvec.models.finding import find_model
from twinvec.models.space import (
    SPACE_PROBES,
    backbone_settings,
    classifier_digest,
    graph_digest,
    network_digest,
    space_digest,
)

KINDS = models.BACKBONES
BERT = {"num_attention_heads": 12, "hidden_act": "gelu", "layer_norm_eps": 1e-12}
LAYERS = {1: ["full_attention"], 4: ["full_attention", *["sliding_attention"] * 2, "full_attention"]}
THETAS = {"full_attention": 160000.0, "sliding_attention": 10000.0}
DEFAULTS = {
    "bert": BERT,
    "roberta": BERT | {"pad_token_id": 1},
    "xlm-roberta": BERT | {"pad_token_id": 1},
    "camembert": BERT | {"pad_token_id": 1},
    "mpnet": BERT | {"pad_token_id": 1},
    "distilbert": {"n_heads": 12, "activation": "gelu"},
    "modernbert": {
        "num_attention_heads": 12,
        "hidden_activation": "gelu",
        "norm_eps": 1e-5,
        "local_attention": 128,
        "layer_types": LAYERS[4],
        "rope_parameters": THETAS,
    },
}
TENSORS = {
    "embeddings.word.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "layer.0.LayerNorm.weight": np.array([1, 2], np.float32),
    "layer.0.LayerNorm.bias": np.array([0.5, -0.5], np.float32),
}

# Digests of version 0.1.0: they never change.
RECORDED_SPACES = {
    "plain": "fe72ac7586a63b3c8ed52026ddb694daffb7da74f7b72464765e1d223b97cc31",
    "lower case": "aff0aa7fdb4fb2c274b175a3f529f3a0772c18ea37d7105a637ebfd7341d825c",
    "max_tokens": "618a9c2984fadd066a321834c9bdb748cd16b84f156e51658c52ca542d8cd463",
    "dim": "e220bb5e11939fe67df692c525a060823a0b526fa65cfb15f0f2e23492f13052",
    "query prompt": "c83f84432939c68c997f2b19f82744a75bc888ffbf7c7161fcd0064ae2a60013",
    "document prompt": "760f7921e034095644441c613b9cabf613c6c2ce210c15a0800985b376cdd46b",
    "default prompt": "dd7a564026ab227881fb15faa74e78dd68ecb79ff45416914e4c5d28eb8bea6c",
    "prompt not pooled": "35a7bbe8613f21e9adea41d54b82b44a586b96ee78667fc05dfc603a41a8c90e",
    "two prompts": "ced9e06da57a4cb52c3cf5674eb5303370220bfd72a940e820e32220c399da61",
    "tokenizer": "86ae2a4a41fa347897aa62e49124731ce088c90a26c534c18e1b15893f7b5504",
    "network": "5ba889f87022720b969ce06370cb9bf461762c2bf1140c4391aa1970954a3641",
}
RECORDED_NETWORKS = {
    "plain": "e75de1184432276bb6104abdfc313cc8a50fdb710dd92f4a4fd50dd24221b02a",
    "heads": "24a83efa954d6348f461703db6e21298d68ffc934510ef5077dc5a7f1f809eb0",
    "roberta": "fcce51df437e98bbfa47303e6af41526640c0854b1a43524910059f69773f2b8",
    "max": "c314eafd3f31c29e34c3099df09ab06d28e8b03a593719e210963e9880579f3f",
    "mean and max": "82f693234da965515c72cf0b722ffdb15d63759be641af72cff789e1bd84192f",
    "not normalised": "ab6e44112151f1a2351ca977d5c752c76ae233b3fe358ae4990d3a5c27703d2f",
    "dense": "d8b61bdf8002bb8e320c48262822f3262876a0f89138b0299672f8a3df5f4024",
    "dense last": "55b55e86c627970d6dbad0e890dc4069648eabdfe229fd4e15d8e7d8b9d52147",
    "in_features": "4898e0521dff59d3c02e868006a5d4f6f7c659cf3de4fa631ecd0a14822ed85b",
    "out_features": "7804492eabc08d1d1f9a8cc2a1ba6cdda61503362731f5c7860d5bb1957f5bc3",
    "activation": "9fdb92b36404e8596361f9891575eb334954eb7f0c068e93263350327168a04e",
}
RECORDED_GRAPHS = [
    "dda3d1828d764ac8d0a9e5535019ced1bbcee4f5ffae09b807b35bcd67a3fda5",
    "0c937056068b272eb4dab243ad6d89ec3466a5cc5dcae56246a3f17b6a53617d",
]
RECORDED_CLASSIFIER = "909c8e8c33cbc39a9f980eeaf1a53909ef3f167de77c5a126a0f8cb7dbc45509"
RECORDED_PROBES = "d0cd3a820267af086b787fae075d9fe82666675f042552e471226a7db950ac88"


def config_of(kind, **settings):
    return {"model_type": kind, **({"num_hidden_layers": 4} if kind == "modernbert" else {}), **settings}


def spec_of(folder, **settings):
    """A spec whose every setting is a default of its kind."""
    plain = {
        "config": config_of("bert"),
        "max_tokens": 128,
        "lower_case": False,
        "positions": 512,
        "pooling": ("mean",),
        "include_prompt": True,
        "head": (Normalize(),),
        "prompts": {"query": "", "document": ""},
        "default_prompt": None,
        "truncate_dim": None,
        "full_dim": 32,
    }
    return ModelSpec(folder=folder, **(plain | settings))


def save(folder, tensors, name="model.safetensors"):
    folder.mkdir(exist_ok=True)
    save_file({key: np.ascontiguousarray(values) for key, values in tensors.items()}, folder / name, {"format": "pt"})
    return folder


@pytest.fixture
def weights(tmp_path):
    return save(tmp_path / "weights", TENSORS)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_settings_have_the_defaults_of_transformers(kind):
    assert backbone_settings(config_of(kind)) == {"model_type": kind, **DEFAULTS[kind]}


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind in KINDS for key in DEFAULTS[kind]])
def test_each_stated_setting_replaces_its_default(kind, key):
    stated = {"layer_types": LAYERS[1] * 4, "rope_parameters": {"full_attention": {"rope_theta": 7}}}.get(key, "other")
    expected = {"rope_parameters": {**THETAS, "full_attention": 7.0}}.get(key, stated)
    found = backbone_settings(config_of(kind, **{key: stated, "hidden_dropout_prob": 0.5}))
    assert found == {"model_type": kind, **DEFAULTS[kind], key: expected}


@pytest.mark.parametrize("kind", KINDS)
def test_the_defaults_are_those_of_transformers(kind):
    from transformers import AutoConfig

    stated = json.loads(json.dumps(AutoConfig.for_model(kind).to_dict()))
    found = backbone_settings(stated)
    sparse = {key: stated[key] for key in ("model_type", "num_hidden_layers") if key in stated}
    assert backbone_settings(sparse) == found


@pytest.mark.parametrize(
    ("settings", "layers", "thetas"),
    [
        ({}, "full sliding sliding full sliding sliding full", (160000.0, 10000.0)),
        ({"global_attn_every_n_layers": 2}, "full sliding full sliding full sliding full", (160000.0, 10000.0)),
        ({"layer_types": ["full_attention"]}, "full", (160000.0, 10000.0)),
        ({"global_rope_theta": 5, "local_rope_theta": 6}, "full sliding sliding full sliding sliding full", (5.0, 6.0)),
        (
            {
                "rope_parameters": {
                    "sliding_attention": {"rope_theta": 8},
                    "full_attention": {"rope_theta": 9},
                    "rope_type": "default",
                },
                "global_rope_theta": 5,
            },
            "full sliding sliding full sliding sliding full",
            (9.0, 8.0),
        ),
    ],
)
def test_modernbert_says_in_several_ways_how_its_layers_attend(settings, layers, thetas):
    found = backbone_settings({"model_type": "modernbert", "num_hidden_layers": 7, **settings})
    assert found["layer_types"] == [f"{layer}_attention" for layer in layers.split()]
    assert found["rope_parameters"] == dict(zip(("full_attention", "sliding_attention"), thetas, strict=True))
    assert all(isinstance(theta, float) for theta in found["rope_parameters"].values()), "5 and 5.0 differ as JSON"


SPACES = {
    "plain": {},
    "lower case": {"lower_case": True},
    "max_tokens": {"max_tokens": 127},
    "dim": {"truncate_dim": 16},
    "full_dim": {"full_dim": 16},
    "query prompt": {"prompts": {"query": "find: ", "document": ""}},
    "document prompt": {"prompts": {"query": "", "document": "find: "}},
    "default prompt": {"prompts": {"query": "find: ", "document": ""}, "default_prompt": "query"},
    "prompt not pooled": {"prompts": {"query": "find: ", "document": ""}, "include_prompt": False},
    "two prompts": {"prompts": {"query": "a", "document": "b"}},
}


def test_the_space_of_each_setting_is_the_recorded_one(tmp_path):
    found = {name: space_digest(spec_of(tmp_path, **settings), "t", "n") for name, settings in SPACES.items()}
    found["tokenizer"] = space_digest(spec_of(tmp_path), "u", "n")
    found["network"] = space_digest(spec_of(tmp_path), "t", "o")
    assert found.pop("full_dim") == found["dim"]
    assert found == RECORDED_SPACES
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    "settings",
    [
        {"include_prompt": False},
        {"prompts": {}},
        {"prompts": {"document": "", "query": "", "topic": ""}},
        {"default_prompt": "query"},
        {"default_prompt": "missing"},
        {"positions": 64},
        {"full_dim": 64, "truncate_dim": 32},
    ],
)
def test_a_setting_without_effect_leaves_the_space_as_it_is(tmp_path, settings):
    assert space_digest(spec_of(tmp_path, **settings), "t", "n") == RECORDED_SPACES["plain"]


def test_the_order_of_prompts_does_not_matter(tmp_path):
    swapped = {"document": "b", "query": "a"}
    assert space_digest(spec_of(tmp_path, prompts=swapped), "t", "n") == RECORDED_SPACES["two prompts"]


def dense(folder, **settings):
    return Dense(
        **({"folder": folder, "in_features": 32, "out_features": 16, "bias": True, "activation": "Tanh"} | settings)
    )


def test_the_network_of_each_setting_is_the_recorded_one(weights, tmp_path):
    head = save(tmp_path / "dense", {"linear.weight": np.ones((2, 2), np.float32)})
    found = {
        "plain": spec_of(weights),
        "heads": spec_of(weights, config=config_of("bert", num_attention_heads=2)),
        "roberta": spec_of(weights, config=config_of("roberta")),
        "max": spec_of(weights, pooling=("max",)),
        "mean and max": spec_of(weights, pooling=("mean", "max")),
        "not normalised": spec_of(weights, head=()),
        "dense": spec_of(weights, head=(dense(head), Normalize())),
        "dense last": spec_of(weights, head=(Normalize(), dense(head))),
        "in_features": spec_of(weights, head=(dense(head, in_features=31), Normalize())),
        "out_features": spec_of(weights, head=(dense(head, out_features=15), Normalize())),
        "activation": spec_of(weights, head=(dense(head, activation="ReLU"), Normalize())),
    }
    digests = {name: network_digest(spec) for name, spec in found.items()}
    assert digests == RECORDED_NETWORKS
    assert len(set(digests.values())) == len(digests)


def test_the_order_of_settings_and_what_they_leave_out_do_not_matter(weights):
    config = {"layer_norm_eps": 1e-12, "hidden_act": "gelu", "dropout": 0.1, "model_type": "bert"}
    assert network_digest(spec_of(weights, config=config)) == RECORDED_NETWORKS["plain"]
    other = spec_of(
        weights, max_tokens=9, lower_case=True, prompts={"query": "q"}, truncate_dim=3, include_prompt=False
    )
    assert network_digest(other) == RECORDED_NETWORKS["plain"]


PREFIXES = ("bert", "roberta", "xlm_roberta", "mpnet", "distilbert", "model")
OLD_NAMES = {
    "layer.0.LayerNorm.weight": "layer.0.LayerNorm.gamma",
    "layer.0.LayerNorm.bias": "layer.0.LayerNorm.beta",
}
UNUSED = (
    "pooler.dense.weight",
    "cls.predictions.bias",
    "lm_head.bias",
    "classifier.weight",
    "pre_classifier.weight",
    "qa_outputs.weight",
    "head.dense.weight",
    "decoder.weight",
    "vocab_transform.weight",
    "vocab_projector.bias",
    "bert.pooler.dense.weight",
    "embeddings.position_ids",
    "position_ids",
)


@pytest.mark.parametrize(
    "change",
    [
        *[{f"{prefix}.{name}": values for name, values in TENSORS.items()} for prefix in PREFIXES],
        {OLD_NAMES.get(name, name): values for name, values in TENSORS.items()},
        {name: values.astype(np.float16) for name, values in TENSORS.items()},
        dict(reversed(TENSORS.items())),
        *[{**TENSORS, name: np.ones(2, np.float32)} for name in UNUSED],
    ],
)
def test_names_order_and_unused_tensors_do_not_matter(tmp_path, change):
    assert network_digest(spec_of(save(tmp_path / "again", change))) == RECORDED_NETWORKS["plain"]


@pytest.mark.parametrize(
    "change",
    [
        {"layer.0.LayerNorm.weight": np.array([1, 3], np.float32)},
        {"embeddings.word.weight": np.arange(6, dtype=np.float32).reshape(3, 2)},
        {"headless.weight": np.ones(2, np.float32)},
        {"layer.0.pooler.weight": np.ones(2, np.float32)},
        {"embeddings.position_ids.weight": np.ones(2, np.float32)},
        {"gpt.embeddings.word.weight": np.ones(2, np.float32)},
        {"layer.bert.weight": np.ones(2, np.float32)},
        {"layer.1.weight": np.zeros(0, np.float32)},
    ],
)
def test_names_shapes_and_values_of_used_tensors_count(tmp_path, change):
    assert network_digest(spec_of(save(tmp_path / "again", TENSORS | change))) != RECORDED_NETWORKS["plain"]


def test_shards_and_bfloat16_do_not_matter(tmp_path):
    import torch
    from safetensors.torch import save_file as save_torch

    names = sorted(TENSORS)
    parts = {"b.safetensors": names[:1], "a.safetensors": names[1:]}
    folder = tmp_path / "sharded"
    for file, held in parts.items():
        save(folder, {name: TENSORS[name] for name in held}, file)
    index = {"weight_map": {name: file for file, held in parts.items() for name in held}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert network_digest(spec_of(folder)) == RECORDED_NETWORKS["plain"]
    narrow = {name: torch.from_numpy(values).to(torch.bfloat16) for name, values in TENSORS.items()}
    save_torch(narrow, folder / "model.safetensors", {"format": "pt"})
    assert network_digest(spec_of(folder)) == RECORDED_NETWORKS["plain"]


def test_a_graph_is_told_by_network_and_prompt_tokens(tmp_path):
    found = [graph_digest(spec_of(tmp_path, include_prompt=pooled), "n") for pooled in (True, False)]
    assert found == RECORDED_GRAPHS
    assert graph_digest(spec_of(tmp_path), "o") not in found


def classifier(folder, config):
    return ClassifierSpec(
        folder=folder, config=config, max_tokens=9, lower_case=False, positions=9, activate=lambda logits: logits
    )


def test_a_classifier_is_told_by_configuration_and_bytes(weights):
    config = {"model_type": "bert", "id2label": {"0": "LABEL_0"}}
    expected = classifier_digest(classifier(weights, config))
    assert expected == RECORDED_CLASSIFIER
    assert classifier_digest(classifier(weights, dict(reversed(config.items())))) == expected
    assert classifier_digest(classifier(weights, config | {"hidden_act": "relu"})) != expected
    save(weights, TENSORS | {"extra": np.ones(1, np.float32)})
    assert classifier_digest(classifier(weights, config)) != expected


def test_the_probes_are_the_recorded_ones():
    """The identity of every tokenizer, and so every space, depends on them."""
    assert hashlib.sha256(json.dumps(SPACE_PROBES).encode()).hexdigest() == RECORDED_PROBES


def change(path, **values):
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("kind", KINDS)
def test_saving_again_leaves_it_as_it_is(tiny_model, tmp_path, kind):
    from sentence_transformers import SentenceTransformer

    folder = tiny_model(kind, dense=((16, "Tanh"),), prompts={"query": "find: "})
    model = SentenceTransformer(str(folder), device="cpu")
    model.save(str(tmp_path / "again"), create_model_card=False)
    assert Encoder(tmp_path / "again").space == Encoder(folder).space


def test_saving_the_default_model_again_leaves_it_as_it_is(encoder, reference, tmp_path):
    reference.save(str(tmp_path / "again"), create_model_card=False)
    assert Encoder(tmp_path / "again").space == encoder.space


@pytest.mark.parametrize("kind", KINDS)
def test_names_and_precision_of_storage_do_not_matter(tiny_model, tmp_path, kind):
    folder = shutil.copytree(tiny_model(kind), tmp_path / "model")
    before = Encoder(folder).space
    prefix = {"camembert": "roberta", "xlm-roberta": "roberta", "modernbert": "model"}.get(kind, kind)
    tensors = {f"{prefix}.{name}": values for name, values in load_file(folder / "model.safetensors").items()}
    tensors["pooler.dense.weight"] = np.ones((32, 32), np.float32)
    tensors["lm_head.bias"] = np.ones(3, np.float32)
    tensors["embeddings.position_ids"] = np.arange(66)[None]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    assert Encoder(folder).space == before


def test_what_decides_nothing_leaves_it_as_it_is(tiny_copy):
    before = Encoder(tiny_copy).space
    change(tiny_copy / "config.json", hidden_dropout_prob=0.5, transformers_version="9", _name_or_path="elsewhere")
    change(tiny_copy / "config_sentence_transformers.json", similarity_fn_name="dot", __version__={})
    (tiny_copy / "README.md").write_text("A model.")
    assert Encoder(tiny_copy).space == before
    assert Encoder(tiny_copy, device="cpu", token_budget=7, engine="torch").space == before


def test_every_weight_counts(tiny_copy):
    found = {Encoder(tiny_copy).space}
    for path in (tiny_copy / "model.safetensors", tiny_copy / "2_Dense" / "model.safetensors"):
        tensors = load_file(path)
        for name in [name for name in tensors if "pooler" not in name]:
            changed = tensors[name].copy()
            changed.flat[-1] += 1e-3
            save_file(tensors | {name: changed}, path, {"format": "pt"})
            found.add(Encoder(tiny_copy).space)
        save_file(tensors, path, {"format": "pt"})
    assert len(found) > 30
    assert len(found) == 1 + sum(
        "pooler" not in name
        for path in (tiny_copy / "model.safetensors", tiny_copy / "2_Dense" / "model.safetensors")
        for name in load_file(path)
    )


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("bert", {"num_attention_heads": 2}),
        ("bert", {"hidden_act": "relu"}),
        ("bert", {"layer_norm_eps": 1e-3}),
        ("distilbert", {"n_heads": 2}),
        ("distilbert", {"activation": "relu"}),
        ("mpnet", {"layer_norm_eps": 1e-3}),
        ("modernbert", {"local_attention": 16}),
        ("modernbert", {"norm_eps": 1e-3}),
        pytest.param(
            "modernbert",
            {"layer_types": ["full_attention"] * 4},
            marks=pytest.mark.skipif(
                Version(version("transformers")) < Version("5.17"),
                reason="older versions of transformers load no ModernBERT whose layers are all of one kind",
            ),
        ),
    ],
)
def test_settings_of_the_backbone_count(tiny_model, tmp_path, kind, settings):
    folder = shutil.copytree(tiny_model(kind), tmp_path / "model")
    before = Encoder(folder)
    vector = before.encode("the old cat sleeps in the warm sun while the quick brown fox jumps over the lazy dog")
    change(folder / "config.json", **settings)
    after = Encoder(folder)
    changed = after.encode("the old cat sleeps in the warm sun while the quick brown fox jumps over the lazy dog")
    assert np.abs(changed - vector).max() > 1e-6, "the setting changes nothing"
    assert after.space != before.space


def test_settings_of_the_model_count(tiny_model):
    folders = [
        tiny_model("bert"),
        tiny_model("bert", seed=1),
        tiny_model("bert", pooling=("max",)),
        tiny_model("bert", pooling=("max", "mean")),
        tiny_model("bert", pooling=("mean", "max")),
        tiny_model("bert", normalize=False),
        tiny_model("bert", dense=((32, "Tanh"),)),
        tiny_model("bert", dense=((32, "ReLU"),)),
        tiny_model("bert", lower_case=True),
        tiny_model("bert", max_tokens=20),
        tiny_model("bert", truncate_dim=20),
        tiny_model("bert", prompts={"query": "find: "}),
        tiny_model("bert", prompts={"query": "look: "}),
        tiny_model("bert", prompts={"query": "find: "}, default_prompt="query"),
        tiny_model("bert", prompts={"query": "find: "}, include_prompt=False),
    ]
    spaces = [Encoder(folder).space for folder in folders]
    assert len(set(spaces)) == len(folders)


def test_settings_given_at_loading_count_like_those_of_the_folder(tiny_model):
    plain = tiny_model("bert")
    prompts = {"query": "find: "}
    for options, given in (
        ({"max_tokens": 20}, {"max_tokens": 20}),
        ({"truncate_dim": 20}, {"dim": 20}),
        ({"prompts": prompts, "default_prompt": "query"}, {"prompts": prompts, "default_prompt": "query"}),
    ):
        assert Encoder(tiny_model("bert", **options)).space == Encoder(plain, **given).space
    assert Encoder(plain, dim=32, max_tokens=66, prompts={}).space == Encoder(plain).space


def test_the_tokenizer_counts(tiny_copy):
    before = Encoder(tiny_copy).space
    path = tiny_copy / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    first, second = list(vocabulary)[-2:]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(tokenizer))
    swapped = Encoder(tiny_copy).space
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    path.write_text(json.dumps(tokenizer))
    assert Encoder(tiny_copy).space == before
    settings = json.loads((tiny_copy / "tokenizer_config.json").read_text())
    (tiny_copy / "tokenizer_config.json").write_text(json.dumps({**settings, "do_lower_case": False}))
    assert len({before, swapped, Encoder(tiny_copy).space}) == 3


def test_it_is_the_same_in_another_process(encoder):
    """Nothing of this process, its hash seed for one, goes in."""
    program = "import twinvec, sys; sys.stdout.write(twinvec.Encoder('default').space)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout == encoder.space
    assert len(encoder.space) == 64


def test_bfloat16_weights_have_the_space_of_their_values(tiny_copy):
    import torch
    from safetensors.torch import load_file as load_torch
    from safetensors.torch import save_file as save_torch

    path = tiny_copy / "model.safetensors"
    rounded = {name: values.to(torch.bfloat16) for name, values in load_torch(path).items()}
    save_torch(rounded, path, {"format": "pt"})
    narrow = Encoder(tiny_copy).space
    save_torch({name: values.float() for name, values in rounded.items()}, path, {"format": "pt"})
    assert Encoder(tiny_copy).space == narrow


def test_the_default_model_is_where_it_was(encoder):
    assert encoder.dim == 384
    assert encoder.max_tokens == 256
    assert find_model("default").name == encoder.name == "default"
