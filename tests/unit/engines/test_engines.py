"""Engines by themselves: batches in, vectors and states out."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import models
from cases import slow
from twinvec.engines.torch import TorchEngine, _Halving, _one_batch, _token_budget, quick_attention
from twinvec.errors import ConfigurationError, EngineError
from twinvec.models.encoder_spec import read_spec
from twinvec.support.cpu import available_cores
from twinvec.tokens.batching import Batch


def batch_of(*rows, pad=0):
    width = max(len(row) for row in rows)
    ids = np.array([[*row, *[pad] * (width - len(row))] for row in rows], dtype=np.int64)
    mask = np.array([[1] * len(row) + [0] * (width - len(row)) for row in rows], dtype=np.int64)
    return Batch(ids, mask)


@pytest.fixture(scope="module")
def engine(tiny_model):
    return TorchEngine(read_spec(tiny_model("bert")))


def test_shapes(engine):
    batch = batch_of([2, 7, 8, 3], [2, 9, 3])
    vectors, states = engine.vectors(batch), engine.states(batch)
    assert vectors.shape == (2, models.HIDDEN)
    assert states.shape == (2, 4, models.HIDDEN)
    assert vectors.dtype == states.dtype == np.float32
    mean = states[1, :3].mean(0)
    np.testing.assert_allclose(vectors[1], mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has such a device")
def test_a_device_that_is_not_there_is_refused_in_one_sentence(tiny_model):
    with pytest.raises(
        ConfigurationError, match=r"^device 'mps' cannot be used: [^.]*(aten::empty\.[^.]*)?$"
    ) as refused:
        TorchEngine(read_spec(tiny_model("bert")), device="mps")
    assert len(str(refused.value)) < 150


@pytest.mark.parametrize("kind", models.BACKBONES)
def test_padding_changes_nothing(tiny_model, kind):
    engine = TorchEngine(read_spec(tiny_model(kind)))
    pad = 3 if kind == "modernbert" else int(kind in models.OFFSET)
    alone = engine.vectors(batch_of([2, 9, 5]))
    padded = engine.vectors(batch_of([2, 9, 5], [2, 7, 8, 9, 10, 11, 12, 13, 14, 3], pad=pad))
    np.testing.assert_allclose(padded[0], alone[0], atol=1e-5)


@pytest.mark.parametrize("kind", models.BACKBONES)
def test_a_row_without_a_token_is_finite_and_disturbs_no_other(tiny_model, kind):
    engine = TorchEngine(read_spec(tiny_model(kind)))
    vectors = engine.vectors(batch_of([], [2, 9, 5], []))
    assert np.isfinite(vectors).all()
    assert (vectors[0] == 0).all()
    np.testing.assert_allclose(vectors[1], engine.vectors(batch_of([2, 9, 5]))[0], atol=1e-5)


def test_leading_tokens_can_be_left_out_of_pooling(engine):
    batch = batch_of([2, 9, 5, 3])
    late = engine.vectors(Batch(batch.ids_BT, batch.mask_BT, prompt_tokens=2))
    mean = engine.states(batch)[0, 2:].mean(0)
    np.testing.assert_allclose(late[0], mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_is_near(tiny_model, engine, precision):
    batch = batch_of(*([2, *range(5, 5 + length), 3] for length in range(1, 30)))
    half = TorchEngine(read_spec(tiny_model("bert")), precision=precision).vectors(batch)
    cosines = (half * engine.vectors(batch)).sum(1)
    assert half.dtype == np.float32
    assert 0.99 < cosines.min() < 1 - 1e-9


def test_what_torch_cannot_do(tiny_model):
    spec = read_spec(tiny_model("bert"))
    for options in ({"precision": "int8"}, {"device": "abacus"}, {"device": "cuda:99"}):
        with pytest.raises(ConfigurationError):
            TorchEngine(spec, **options)


@pytest.mark.parametrize(("gigabytes", "tokens"), [(141, 262144), (64, 262144), (16, 65536), (8, 32768), (4, 16384)])
def test_the_budget_of_a_gpu_follows_its_memory(monkeypatch, gigabytes, tokens):
    properties = SimpleNamespace(total_memory=gigabytes * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    assert _token_budget(torch.device("cuda:0")) == tokens
    assert _token_budget(torch.device("mps")) == 65536


def test_torch_keeps_to_the_cores_of_a_container(tiny_model, monkeypatch):
    threads = torch.get_num_threads()
    monkeypatch.setattr("twinvec.engines.torch.available_cores", lambda: 1)
    try:
        TorchEngine(read_spec(tiny_model("bert")))
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(threads)


def test_failures_carry_the_name_of_the_engine(engine):
    with pytest.raises(EngineError, match="engine torch, cpu, float32: "):
        engine.vectors(batch_of([10**7]))
    with pytest.raises(EngineError, match="engine torch, cpu, float32: "):
        engine.states(batch_of([5] * 1000))


@pytest.mark.parametrize("fits", [1, 3, 8, 100])
def test_a_batch_that_does_not_fit_is_halved(engine, fits):
    batch = batch_of(*([2, number, 3] for number in range(5, 18)))
    sizes = []

    def compute(part):
        sizes.append(len(part.ids_BT))
        if sizes[-1] > fits:
            raise torch.OutOfMemoryError("the device is full")
        return engine.vectors(part)

    halving = _Halving()
    np.testing.assert_allclose(halving(compute, batch), engine.vectors(batch), atol=1e-5)
    assert sum(size for size in sizes if size <= fits) == 13
    sizes.clear()
    halving(compute, batch)
    assert max(sizes) <= fits, "what was too large once is not tried again"


def test_one_text_that_does_not_fit_is_an_error():
    def compute(part):
        raise torch.OutOfMemoryError("the device is full")

    with pytest.raises(torch.OutOfMemoryError):
        _Halving()(compute, batch_of([2, 3], [2, 3]))


@pytest.mark.parametrize(("device", "cudnn"), [("cuda", False), ("cpu", True), ("mps", True)])
def test_a_gpu_computes_without_the_attention_of_cudnn(device, cudnn):
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        with quick_attention(torch.device(device)):
            assert torch.backends.cuda.cudnn_sdp_enabled() == cudnn
            assert torch.backends.cuda.mem_efficient_sdp_enabled()
        assert torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def test_the_attention_of_cudnn_is_off_until_the_last_has_computed():
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        one, two = quick_attention(torch.device("cuda:0")), quick_attention(torch.device("cuda:1"))
        one.__enter__()
        two.__enter__()
        one.__exit__(None, None, None)
        assert not torch.backends.cuda.cudnn_sdp_enabled()
        two.__exit__(None, None, None)
        assert torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def test_all_engines_of_a_gpu_share_its_lock():
    gpu = _one_batch(torch.device("cuda"))
    with gpu:
        assert not _one_batch(torch.device("cuda:0")).acquire(blocking=False)
        assert not _one_batch(torch.device("cuda", 0)).acquire(blocking=False)
        for other in ("cuda:1", "mps"):
            with _one_batch(torch.device(other)):
                pass
    assert gpu.acquire(blocking=False)
    gpu.release()


def test_threads_compute_on_a_cpu_at_once():
    meeting = threading.Barrier(2, timeout=60)

    def compute(_):
        with _one_batch(torch.device("cpu")):
            meeting.wait()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compute, range(2)))


def test_a_fork_waits_for_no_batch_of_its_parent():
    program = textwrap.dedent("""
        import os, torch
        from twinvec.engines.torch import _one_batch, _without_cudnn, quick_attention
        with _one_batch(torch.device("cuda")), _without_cudnn._lock:
            child = os.fork()
            if child == 0:
                with _one_batch(torch.device("cuda:0")), quick_attention(torch.device("cuda")):
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.skipif(available_cores() < 2, reason="on one core, no engine has threads that a fork could lack")
@pytest.mark.parametrize("engine", [slow("torch"), "onnx", "openvino"])
def test_a_fork_of_a_process_that_has_encoded_does_not_hang(tiny_model, engine):
    program = textwrap.dedent("""
        import os, signal, sys
        import numpy as np
        from twinvec import Encoder
        from twinvec.errors import EngineError
        encoder = Encoder(sys.argv[1], engine=sys.argv[2])
        texts = [f"{'a fox ' * (row % 25)} {row}" for row in range(300)]
        vectors = encoder.encode(texts)
        child = os.fork()
        if child == 0:
            signal.alarm(200)  # ends the process, which then has no exit code
            try:
                os._exit(0 if np.allclose(encoder.encode(texts), vectors, atol=1e-5) else 1)
            except EngineError as error:
                os._exit(7 if "this process is a fork of a process that has encoded texts" in str(error) else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    command = [sys.executable, "-c", program, str(tiny_model("bert")), engine]
    usual = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    ended = subprocess.run(command, check=True, timeout=400, stdout=subprocess.PIPE, text=True, env=usual)
    assert int(ended.stdout) == (7 if engine == "openvino" else 0)


@pytest.mark.parametrize(
    ("lock", "activity"),
    [
        ("encoder._loading", "loaded it"),
        ("encoder.engine._loading", "loaded a model"),
        ("encoder.engine._runners['vectors', False]._turn", "encoded texts"),
    ],
)
def test_a_fork_does_not_wait_for_another_thread_of_its_parent(tiny_model, lock, activity):
    program = textwrap.dedent("""
        import os, signal, sys
        from twinvec.engines import graph
        graph.available_cores = lambda: 1
        from twinvec import Encoder
        from twinvec.errors import EngineError
        encoder = Encoder(sys.argv[1], engine="openvino")
        encoder.encode(["a fox"])
        if sys.argv[2] == "loaded a model":
            encoder.engine._runners.clear()
        with eval(sys.argv[3]):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # ends the process, which then has no exit code
                try:
                    encoder.encode(["a dog"])
                except EngineError as error:
                    os._exit(7 if f"was forked while another thread {sys.argv[2]}" in str(error) else 1)
                os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(len(encoder.encode(["a fox"])))
    """)
    command = [sys.executable, "-c", program, str(tiny_model("bert")), activity, lock]
    ended = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True)
    assert ended.stdout.split() == ["7", "1"]


@pytest.mark.parametrize("drops", ["parent", "child"])
def test_a_fork_does_not_wait_for_the_threads_of_an_unused_graph(tiny_model, drops):
    program = textwrap.dedent("""
        import os, signal, sys
        from twinvec import Encoder
        from twinvec.errors import EngineError
        encoder = Encoder(sys.argv[1], engine="openvino")
        encoder.encode(["a fox"])
        if sys.argv[2] == "parent":
            del encoder
        child = os.fork()
        if child == 0:
            signal.alarm(60)  # ends the process, which then has no exit code
            encoder = None
            try:
                Encoder(sys.argv[1], engine="openvino").encode(["a fox"])
            except EngineError as error:
                os._exit(7 if "this process is a fork of a process that has loaded a model" in str(error) else 1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        encoder = Encoder(sys.argv[1], engine="openvino")
        print(len(encoder.encode(["a fox"])))
    """)
    command = [sys.executable, "-c", program, str(tiny_model("bert")), drops]
    usual = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    ended = subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE, text=True, env=usual)
    assert ended.stdout.split() == ["7", "1"]
