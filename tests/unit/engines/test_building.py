"""Graphs that are built from weights: compared with NumPy, and refused by the name of the tensor that is wrong.

``congruence/test_engines.py`` compares them with torch, for every backbone, pooling and head.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import save_file as save_torch_file

from cases import few_quick
from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines import tracing
from twinvec.engines.building.backbones import can_build, missing_part
from twinvec.engines.building.convert import convert
from twinvec.engines.building.numpy import NumpyOperations, _erf
from twinvec.engines.building.onnx import OnnxOperations
from twinvec.engines.building.openvino import OpenVinoOperations
from twinvec.engines.graph_cache import EXACT
from twinvec.engines.runtimes import RUNTIMES
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.models.tensors import Tensors

WEIGHTS = "model.safetensors"
OPERATIONS = {"openvino": OpenVinoOperations, "onnx": OnnxOperations}
each_runtime = pytest.mark.parametrize("runtime", list(RUNTIMES))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path / "cache"))


def made(folder, runtime, tmp_path):
    """Return the difference of a new graph from NumPy."""
    return convert(runtime, Encoder(folder)._model, tmp_path / f"graph{RUNTIMES[runtime].suffixes[0]}")


@each_runtime
def test_a_graph_is_compared_with_numpy(tiny_model, tmp_path, monkeypatch, runtime):
    assert abs(made(tiny_model("bert"), runtime, tmp_path)) < EXACT / 10
    right = OPERATIONS[runtime].layer_norm
    monkeypatch.setattr(
        OPERATIONS[runtime],
        "layer_norm",
        lambda self, node, weight, bias, epsilon: right(self, node, weight, bias, 0.1),
    )
    assert made(tiny_model("bert"), runtime, tmp_path) > EXACT


def test_a_runtime_that_builds_another_graph_is_not_used(tiny_model, monkeypatch):
    right = OpenVinoOperations.attention
    monkeypatch.setattr(
        OpenVinoOperations,
        "attention",
        lambda self, query, key, value, bias, size: right(self, key, query, value, bias, size),
    )
    with pytest.raises(EngineError, match="differs from the model by"):
        Encoder(tiny_model("bert"), engine="openvino").encode("fox")


@each_runtime
@pytest.mark.parametrize(
    "kind", few_quick(("bert", "camembert", "distilbert", "mpnet", "roberta", "xlm-roberta"), ["bert", "roberta"])
)
def test_cross_encoders(tiny_cross_encoder, kind, runtime, monkeypatch):
    monkeypatch.setattr(tracing, "convert", None)
    pairs = [("a fox", "the old cat"), ("", "a quick fox"), ("a fox", "the lazy dog sleeps in the warm sun"), ("a", "")]
    found, expected = (
        CrossEncoderReranker(tiny_cross_encoder(kind), engine=engine).score(pairs) for engine in (runtime, "torch")
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    "activation",
    few_quick(("gelu_new", "relu", "silu", "tanh", "sigmoid", "linear", "gelu_python"), ["gelu_new", "relu"]),
)
def test_activations_of_the_backbone(tiny_copy, activation):
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps(config | {"hidden_act": activation}))
    texts = ["fox", "the old cat sleeps", ""]
    expected = Encoder(tiny_copy, engine="torch").encode(texts)
    for runtime in RUNTIMES:
        np.testing.assert_allclose(Encoder(tiny_copy, engine=runtime).encode(texts), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({}, None),
        ({"model_type": "modernbert"}, "backbone 'modernbert'"),
        ({"hidden_act": "mish"}, "activation 'mish'"),
        ({"hidden_act": ["gelu"]}, "activation ['gelu']"),
    ],
)
def test_what_can_be_built(tiny_model, changes, part):
    spec = Encoder(tiny_model("bert"))._model.spec
    assert can_build(spec)
    assert missing_part({**spec.config, **changes}) == part


def test_missing_and_misshapen_tensors_are_named(tiny_copy):
    tensors = load_file(tiny_copy / WEIGHTS)
    name = "encoder.layer.1.attention.self.query.weight"
    for changed, message in (
        ({key: each for key, each in tensors.items() if key != name}, f"lacks the tensor {name}"),
        (tensors | {name: np.zeros((3, 3), np.float32)}, rf"{name} has shape \(3, 3\), expected \(32, 32\)"),
    ):
        save_file(changed, tiny_copy / WEIGHTS, {"format": "pt"})
        with pytest.raises(ModelIntegrityError, match=message) as raised:
            Encoder(tiny_copy, engine="openvino").encode("fox")
        assert str(tiny_copy / WEIGHTS) in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_attention_heads", 0),
        ("num_hidden_layers", "two"),
        ("num_attention_heads", 5),
        ("layer_norm_eps", "small"),
        ("layer_norm_eps", -1),
    ],
)
def test_settings_that_make_no_sense_are_named(tiny_copy, key, value):
    config = json.loads((tiny_copy / "config.json").read_text())
    (tiny_copy / "config.json").write_text(json.dumps(config | {key: value}))
    with pytest.raises(
        ModelIntegrityError,
        match=r"config\.json: .*(number of (heads|layers)|not divisible by the 5 heads|layer_norm_eps is)",
    ):
        Encoder(tiny_copy, engine="openvino").encode("fox")


def test_bfloat16_and_float16_weights_are_read_without_torch(tmp_path):
    torch.manual_seed(0)
    values = {
        "bert.a": torch.randn(3, 5),
        "b.gamma": torch.randn(7),
        "c": torch.tensor([1e-40, -0.0, 3e38, float("inf")]),
    }
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        cast = {name: each.to(dtype) for name, each in values.items()}
        save_torch_file(cast, tmp_path / WEIGHTS)
        with Tensors(tmp_path) as tensors:
            assert tensors.names == ["a", "b.weight", "c"]
            for name, each in zip(tensors.names, cast.values(), strict=True):
                np.testing.assert_array_equal(tensors.read(name), each.float().numpy())
                assert tensors.read(name).dtype == np.float32


def test_the_reference_operations():
    numbers = np.linspace(-5, 5, 1001, dtype=np.float32)
    ops = NumpyOperations({})
    np.testing.assert_allclose(_erf(numbers), torch.erf(torch.from_numpy(numbers)), atol=5e-7)
    for name, theirs in (
        ("GELU", torch.nn.functional.gelu),
        ("GELU of tanh", lambda x: torch.nn.functional.gelu(x, approximate="tanh")),
        ("SiLU", torch.nn.functional.silu),
        ("Sigmoid", torch.sigmoid),
        ("Tanh", torch.tanh),
        ("ReLU", torch.relu),
        ("Identity", lambda x: x),
    ):
        np.testing.assert_allclose(ops.activation(numbers, name), theirs(torch.from_numpy(numbers)), atol=2e-6)
