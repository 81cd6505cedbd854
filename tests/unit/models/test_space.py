"""The space fingerprint: the same after saving again, another with every setting that decides a vector."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import models
from twinvec import Encoder
from twinvec.models.finding import find_model

KINDS = models.BACKBONES


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
    prefix = {"xlm-roberta": "roberta", "modernbert": "model"}.get(kind, kind)
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
        ("modernbert", {"layer_types": ["full_attention"] * 4}),
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
