"""Graphs in the user's cache: made once, found again, made again when damaged, by two processes at once."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import openvino
import pytest

from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines import graph_cache, select, tracing
from twinvec.engines import openvino as engines_openvino
from twinvec.engines.graph import GraphEngine
from twinvec.engines.graph_cache import cache_folder, cached_graph
from twinvec.engines.openvino import OpenVinoRunner, has_bfloat16, save_graph
from twinvec.engines.runtimes import RUNTIMES
from twinvec.errors import ConfigurationError, EngineError, ModelIntegrityError
from twinvec.models.integrity import sha256
from twinvec.support import telemetry


@pytest.fixture(scope="module")
def made(tmp_path_factory, tiny_model):
    """A cache that holds the graph of the tiny model."""
    folder = tmp_path_factory.mktemp("made") / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINVEC_CACHE", str(folder))
        Encoder(tiny_model("bert"), engine="openvino").encode("fox")
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("TWINVEC_CACHE", str(folder))
    assert cache_folder() == folder
    return folder


@pytest.fixture
def graph(cache, tiny_model):
    """Finds the graph of a tiny model, converting it if need be."""
    encoder = Encoder(tiny_model("bert"))

    def find():
        return cached_graph("openvino", encoder._model)

    return find


def test_a_cache_in_an_unknown_home_folder_is_refused(monkeypatch):
    monkeypatch.setenv("TWINVEC_CACHE", "~no-such-user/cache")
    with pytest.raises(EngineError, match=r"^~no-such-user/cache: the home folder is not known.*set TWINVEC_CACHE"):
        cache_folder()
    monkeypatch.delenv("TWINVEC_CACHE")
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # no user has this number
    with pytest.raises(EngineError, match=r"^the cache of converted graphs: the home folder"):
        cache_folder()


def files_of(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_a_graph_is_made_once(cache, graph):
    found = graph()
    assert found.exact
    assert found.path.is_relative_to(cache)
    assert files_of(cache) == ["graph.bin", "graph.json", "graph.xml"]
    made = found.path.stat().st_mtime_ns
    assert graph() == found
    assert found.path.stat().st_mtime_ns == made


def test_another_network_has_another_graph(cache, tiny_model):
    for seed in (0, 1):
        Encoder(tiny_model("bert", seed=seed), engine="openvino").encode("fox")
    assert files_of(cache).count("graph.xml") == 2
    Encoder(tiny_model("bert"), engine="openvino", dim=3, max_tokens=7).encode("fox")
    assert files_of(cache).count("graph.xml") == 2  # the network is the same


@pytest.mark.parametrize(
    ("name", "damage"), [("graph.xml", "cut"), ("graph.bin", "changed"), ("graph.bin", "gone"), ("graph.json", "cut")]
)
def test_a_damaged_graph_is_made_again(made, cache, graph, name, damage):
    shutil.copytree(made, cache)
    found = graph()
    path = found.path.parent / name
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-7] if damage == "cut" else bytes([data[0] ^ 255]) + data[1:])
    again = graph()
    assert again.exact
    record = json.loads((path.parent / "graph.json").read_text())
    assert {file: sha256(path.parent / file) for file in ("graph.xml", "graph.bin")} == record["sha256"]


def test_the_exception_of_a_signal_handler_makes_no_graph_again(cache, graph, monkeypatch, caplog):
    class TimeLimitError(Exception):
        pass

    def interrupted(path):
        raise TimeLimitError

    graph()
    monkeypatch.setattr(graph_cache, "sha256", interrupted)
    with pytest.raises(TimeLimitError):
        graph()
    assert "converting again" not in caplog.text


def test_what_a_killed_conversion_left_goes(cache, graph):
    home = graph().path.parent
    left_over = home.with_name(f"{home.name}.abc123")
    (left_over / "graph").mkdir(parents=True)
    shutil.rmtree(home)
    assert graph().exact
    assert not left_over.exists()


@pytest.mark.slow
def test_a_cross_encoder_has_a_graph_too(cache, tiny_cross_encoder):
    pairs = [("a fox", "the old cat"), ("a fox", "a quick fox")]
    for _ in range(2):
        scores = CrossEncoderReranker(tiny_cross_encoder("bert"), engine="openvino").score(pairs)
    np.testing.assert_allclose(scores, CrossEncoderReranker(tiny_cross_encoder("bert")).score(pairs), atol=1e-5)
    assert files_of(cache) == ["graph.bin", "graph.json", "graph.xml"]
    assert CrossEncoderReranker(tiny_cross_encoder("bert")).engine.name.startswith("torch")  # it is small
    CrossEncoderReranker(tiny_cross_encoder("bert", seed=1), engine="openvino")
    assert files_of(cache).count("graph.xml") == 2


@pytest.mark.slow
def test_processes_that_want_it_at_once_share_it(cache, tiny_model):
    folder = tiny_model("bert")
    program = (
        "import logging, sys, twinvec; logging.basicConfig(level=logging.INFO);"
        "print(twinvec.Encoder(sys.argv[1], engine='openvino').encode('a fox').tolist())"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(subprocess.run, command, capture_output=True, text=True, timeout=300) for _ in range(2)]
    outputs = [run.result() for run in runs]
    assert [run.returncode for run in outputs] == [0, 0], outputs[0].stderr + outputs[1].stderr
    assert sum(run.stderr.count("preparing ") for run in outputs) == 1, "one converts, the other waits"
    first, second = (np.array(json.loads(run.stdout)) for run in outputs)
    np.testing.assert_allclose(first, second, atol=1e-6)
    np.testing.assert_allclose(first, Encoder(folder, engine="torch").encode("a fox"), atol=1e-5)
    assert files_of(cache) == ["graph.bin", "graph.json", "graph.xml"]


def test_neither_torch_nor_transformers_is_imported_once_it_is_made(made, cache, tiny_model):
    folder = tiny_model("bert")
    shutil.copytree(made, cache)
    program = (
        "import sys, twinvec; encoder = twinvec.Encoder(sys.argv[1], engine='openvino');"
        "encoder.encode(['a fox', 'a cat']); encoder.encode_tokens(['a fox']);"
        "print(sorted({'torch', 'transformers', 'sentence_transformers', 'huggingface_hub'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", program, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_cache_that_cannot_be_written(cache, tiny_model):
    cache.mkdir()
    cache.chmod(0o500)
    with pytest.raises(EngineError, match="cannot be written"):
        Encoder(tiny_model("bert"), engine="openvino").encode("fox")


def test_a_cache_that_is_a_file(cache, tiny_model):
    cache.write_text("in the way")
    with pytest.raises(EngineError, match="cannot be written"):
        Encoder(tiny_model("bert"), engine="openvino").encode("fox")


def test_a_graph_that_cannot_be_written(graph, tmp_path):
    made = openvino.Core().read_model(graph().path)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(EngineError, match=r"graph\.xml: cannot be written"):
        save_graph(made, tmp_path / "file" / "graph.xml")


def test_a_graph_that_is_none(tmp_path):
    (tmp_path / "graph.xml").write_text("<net")
    for path in (tmp_path / "graph.xml", tmp_path / "nowhere.xml"):
        with pytest.raises(ModelIntegrityError, match="cannot be read as an OpenVINO graph"):
            GraphEngine(OpenVinoRunner, path)


def test_small_models_stay_with_torch(cache, tiny_model):
    assert Encoder(tiny_model("bert")).engine.name.startswith("torch")
    assert files_of(cache) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cuda"}, "computes on the CPU"),
        ({"precision": "float16"}, "openvino engine does not compute in float16"),
    ],
)
def test_what_openvino_does_not_do(cache, tiny_model, options, message):
    with pytest.raises(ConfigurationError, match=message):
        Encoder(tiny_model("bert"), engine="openvino", **options).encode("fox")
    assert files_of(cache) == []


@pytest.mark.skipif(not has_bfloat16(), reason="this processor has no bfloat16")
def test_bfloat16_is_near(cache, tiny_model):
    texts = ["a fox", "the old cat", *(" ".join(["a quick brown dog"] * count) for count in range(1, 12))]
    exact, half = (Encoder(tiny_model("bert"), engine="openvino", precision=each) for each in ("float32", "bfloat16"))
    assert half.engine.name == "openvino, cpu, bfloat16"
    cosines = (exact.encode(texts) * half.encode(texts)).sum(1)
    assert 0.999 < cosines.min() < 1 - 1e-7
    np.testing.assert_allclose(np.linalg.norm(half.encode(texts), axis=1), 1, atol=1e-5)
    assert files_of(cache) == ["graph.bin", "graph.json", "graph.xml"]  # of float32, for both


def test_a_processor_without_bfloat16(cache, tiny_model, monkeypatch):
    monkeypatch.setitem(RUNTIMES, "openvino", replace(RUNTIMES["openvino"], has_bfloat16=lambda: False))
    monkeypatch.setattr(select, "_WORTH_CONVERTING", 0)
    assert Encoder(tiny_model("bert"), precision="bfloat16").engine.name == "torch, cpu, bfloat16"
    with pytest.raises(ConfigurationError, match="does not compute in bfloat16 on this processor"):
        Encoder(tiny_model("bert"), engine="openvino", precision="bfloat16").encode("fox")
    with pytest.raises(ConfigurationError, match="onnx engine does not compute in bfloat16"):
        Encoder(tiny_model("bert"), engine="onnx", precision="bfloat16").encode("fox")


def test_where_openvino_is_broken_torch_computes_and_says_so(cache, tiny_model, tmp_path, monkeypatch, caplog):
    """A package that is there, and cannot be imported."""
    broken = tmp_path / "site" / "openvino" / "__init__.py"
    broken.parent.mkdir(parents=True)
    broken.write_text("raise ImportError('libtbb.so.12: cannot open shared object file')")
    monkeypatch.syspath_prepend(broken.parents[1])
    for loaded in [name for name in sys.modules if name.split(".")[0] == "openvino"]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(select, "_WORTH_CONVERTING", 0)
    with pytest.raises(EngineError, match="installed but cannot be imported: libtbb"):
        Encoder(tiny_model("bert"), engine="openvino").encode("fox")
    with caplog.at_level(logging.WARNING):
        assert Encoder(tiny_model("bert")).engine.name == "torch, cpu, float32"
    assert "libtbb" in caplog.text


def test_where_a_graph_does_not_compile_torch_computes_and_says_so(cache, tiny_model, monkeypatch, caplog):
    class Core:
        def __getattr__(self, name):
            return getattr(openvino.Core(), name)

        def compile_model(self, *given):
            raise RuntimeError("no kernel for this")

    monkeypatch.setattr(engines_openvino, "shared_core", Core)
    monkeypatch.setattr(select, "_WORTH_CONVERTING", 0)
    with pytest.raises(EngineError, match="cannot compute its graph: no kernel for this") as raised:
        Encoder(tiny_model("bert"), engine="openvino").encode("fox")
    assert str(tiny_model("bert")) in str(raised.value)
    with caplog.at_level(logging.WARNING):
        assert Encoder(tiny_model("bert")).engine.name == "torch, cpu, float32"
    assert "no kernel for this" in caplog.text


def test_where_a_model_cannot_be_converted_torch_computes_and_says_so(cache, tiny_model, monkeypatch, caplog):
    def untraceable(*inputs, **named):
        raise RuntimeError("not to be traced")

    monkeypatch.setattr(tracing.Network, "forward", untraceable)
    monkeypatch.setattr(select, "_WORTH_CONVERTING", 0)
    folder = tiny_model("modernbert")  # its graph is traced
    root = logging.getLogger()
    before = root.level, list(root.filters), list(root.handlers)
    with pytest.raises(EngineError, match="cannot be converted for OpenVINO"):
        Encoder(folder, engine="openvino").encode("fox")
    assert (root.level, root.filters, root.handlers) == before
    assert Encoder(folder).engine.name == "torch, cpu, float32"
    assert "torch computes instead" in caplog.text


def test_a_conversion_reads_the_level_of_the_root_logger_while_no_other_thread_converts(cache, tiny_model, monkeypatch):
    """OpenVINO raises the level during a conversion. A thread that reads it then later restores the raised level."""
    kept, others_may_convert = tracing._root_logger_kept, []

    def may_convert():
        free = telemetry._one_at_a_time.acquire(blocking=False)
        if free:
            telemetry._one_at_a_time.release()
        return free

    def observed():
        with ThreadPoolExecutor(1) as pool:
            others_may_convert.append(pool.submit(may_convert).result())
        return kept()

    monkeypatch.setattr(tracing, "_root_logger_kept", observed)
    Encoder(tiny_model("modernbert"), engine="openvino").encode("fox")
    assert others_may_convert == [False]
