"""Vectors, token states and scores of a GPU are those of the CPU, in every precision and whatever memory there is."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import models
from twinvec import CrossEncoderReranker, Encoder
from twinvec.errors import ConfigurationError, EngineError

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")

TEXTS = [f"{'the old cat sleeps in the warm sun ' * (row % 7)}number {row}" for row in range(300)] + ["", "日本語"]
LEAST_COSINE = {"float32": 0.99999, "float16": 0.9995, "bfloat16": 0.995}
WITHOUT_PADDING = [kind for kind in models.BACKBONES if kind != "mpnet"]


def cosines(found, expected):
    return (found * expected).sum(-1) / np.linalg.norm(found, axis=-1) / np.linalg.norm(expected, axis=-1)


def on_cpu(folder):
    return Encoder(folder, engine="torch", device="cpu", precision="float32")


def lowest_cosine(found, expected):
    return min(cosines(one, other).min() for one, other in zip(found, expected, strict=True))


def bfloat16_states_of_the_cpu(folder):
    return Encoder(folder, engine="torch", device="cpu", precision="bfloat16").encode_tokens(TEXTS)


def on_gpu(folder, precision="float32", **options):
    return Encoder(folder, engine="torch", device="cuda", precision=precision, **options)


@pytest.mark.parametrize("precision", LEAST_COSINE)
@pytest.mark.parametrize("kind", models.BACKBONES)
def test_vectors_are_those_of_the_cpu(tiny_model, kind, precision):
    folder = tiny_model(kind, pooling=("mean", "cls", "max"))
    gpu = on_gpu(folder, precision)
    assert gpu.engine.name == f"torch, cuda, {precision}"
    assert gpu.space == on_cpu(folder).space
    assert cosines(gpu.encode(TEXTS), on_cpu(folder).encode(TEXTS)).min() > LEAST_COSINE[precision]


@pytest.mark.parametrize("kind", WITHOUT_PADDING)
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_computes_without_padding(tiny_model, kind, precision):
    engine = on_gpu(tiny_model(kind), precision).engine
    assert engine._unpadded is not None


def test_the_default_model_too():
    gpu, cpu = on_gpu("default", "bfloat16"), on_cpu("default")
    assert gpu.engine._unpadded is not None
    assert cosines(gpu.encode(TEXTS), cpu.encode(TEXTS)).min() > 0.999


def test_a_gpu_is_the_default(tiny_model):
    assert Encoder(tiny_model("bert")).engine.name == "torch, cuda, float32"


@pytest.mark.parametrize("precision", LEAST_COSINE)
@pytest.mark.parametrize("kind", models.BACKBONES)
def test_token_states_are_those_of_the_cpu(tiny_model, kind, precision):
    folder = tiny_model(kind)
    found = on_gpu(folder, precision).encode_tokens(TEXTS)
    expected = on_cpu(folder).encode_tokens(TEXTS)
    assert [each.shape for each in found] == [each.shape for each in expected]
    assert lowest_cosine(found, expected) > LEAST_COSINE[precision] or (
        # A token of the random ModernBERT may differ more, also if the CPU computes in bfloat16.
        precision == "bfloat16"
        and lowest_cosine(found, expected) > 1 - 2 * (1 - lowest_cosine(bfloat16_states_of_the_cpu(folder), expected))
    )


@pytest.mark.parametrize("precision", LEAST_COSINE)
@pytest.mark.parametrize("kind", ["bert", "modernbert", "xlm-roberta"])
def test_scores_of_pairs_are_those_of_the_cpu(tiny_cross_encoder, kind, precision):
    folder = tiny_cross_encoder(kind)
    pairs = [(query, text) for query in TEXTS[:5] for text in TEXTS[5:80]]
    gpu = CrossEncoderReranker(folder, engine="torch", device="cuda", precision=precision)
    cpu = CrossEncoderReranker(folder, engine="torch", device="cpu")
    assert (gpu.engine._unpadded is None) == (precision == "float32")
    difference = np.abs(gpu.score(pairs) - cpu.score(pairs)).max()
    assert difference < {"float32": 1e-5, "float16": 5e-3, "bfloat16": 5e-2}[precision]


@pytest.fixture
def memory():
    """``memory(bytes)``: from now on, torch may take so much more of the GPU; None for all of it."""
    total = torch.cuda.get_device_properties(0).total_memory

    def leave(bytes_):
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(
            1.0 if bytes_ is None else min(1.0, (torch.cuda.memory_reserved() + bytes_) / total)
        )

    yield leave
    leave(None)


@pytest.mark.parametrize("precision", LEAST_COSINE)
def test_a_batch_that_does_not_fit_is_halved(tiny_model, precision, memory):
    texts = [f"{'the old cat sleeps in the warm sun ' * 8}number {row}" for row in range(20_000)]
    expected = on_gpu(tiny_model("bert"), precision).encode(texts)
    gpu = on_gpu(tiny_model("bert"), precision, token_budget=1_000_000)
    gpu.encode("its weights are loaded")
    memory(48 * 2**20)  # less than the float32 states of a window, 8,192 texts of 66 tokens of 32 numbers
    found = gpu.encode(texts)
    assert gpu.engine._halving._too_large < 1_000_000
    assert cosines(found, expected).min() > LEAST_COSINE[precision]


def test_a_text_that_does_not_fit_is_an_error(tiny_model, memory):
    gpu = on_gpu(tiny_model("bert"))
    gpu.encode("loaded")
    memory(0)
    held = []
    for size in (2**20, 2**16, 2**12, 512):  # all that torch holds already
        with contextlib.suppress(torch.OutOfMemoryError):
            while True:
                held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    with pytest.raises(EngineError, match=r"engine torch, cuda, float32: .*memory"):
        gpu.encode(" ".join(f"word{n}" for n in range(60)))
    held.clear()
    memory(None)
    gpu.encode("it goes on")


def test_threads_share_an_engine(tiny_model):
    gpu = on_gpu(tiny_model("bert"), "float16")
    expected = gpu.encode(TEXTS)
    barrier = threading.Barrier(8)

    def encode(_):
        barrier.wait()
        return [gpu.encode(TEXTS) for _ in range(5)]

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(encode, range(8)):
            assert min(cosines(each, expected).min() for each in found) > 0.9995


def test_several_devices_give_the_vectors_of_one(tiny_model):
    two = Encoder(tiny_model("bert"), engine="torch", devices=["cuda:0", "cuda:0"])
    assert cosines(two.encode(TEXTS), on_cpu(tiny_model("bert")).encode(TEXTS)).min() > LEAST_COSINE["float32"]


def test_a_gpu_that_is_not_there_is_named(tiny_model):
    with pytest.raises(ConfigurationError, match="cuda:99"):
        Encoder(tiny_model("bert"), device="cuda:99").encode("fox")
