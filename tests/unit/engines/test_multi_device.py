"""Several devices: real processes give the vectors of one, and their faults come back as errors."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines.multi_device import ProcessesEngine
from twinvec.errors import ConfigurationError, EngineError, MissingExtraError
from twinvec.export.model import export_model
from twinvec.support.cpu import available_cores
from twinvec.tokens.batching import Batch

TEXTS = [f"{'the old cat sleeps ' * (row % 9)}number {row}" for row in range(200)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_model):
    """A model that loads quickly: its processes need no torch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TWINVEC_CACHE", str(tmp_path_factory.mktemp("cache")))
        return export_model(tiny_model("bert"), tmp_path_factory.mktemp("exports") / "out", engine="onnx").folder


def make(folder, **options):
    return Encoder(folder, **{"engine": "onnx", "devices": ["cpu", "cpu"], **options})


@pytest.fixture(scope="module")
def two(folder):
    return make(folder)


def test_two_processes_give_the_vectors_of_one(folder, two):
    one = Encoder(folder, engine="onnx")
    assert two.engine.name == "2 processes: onnx, cpu, float32"
    assert two.engine.workers == 2 * max(1, available_cores() // 2)
    assert len(multiprocessing.active_children()) >= 2
    done = []
    np.testing.assert_allclose(two.encode(TEXTS, on_batch=done.append), one.encode(TEXTS), atol=1e-6)
    assert sum(done) == len(TEXTS)
    assert len(done) > 2
    for ours, theirs in zip(two.encode_tokens(TEXTS[:20]), one.encode_tokens(TEXTS[:20]), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_cross_encoders_too(tiny_cross_encoder, tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path / "cache"))
    folder = export_model(tiny_cross_encoder("bert"), tmp_path / "out", engine="onnx").folder
    pairs = [(query, text) for query in TEXTS[:5] for text in TEXTS[5:40]]
    one, two = (CrossEncoderReranker(folder, engine="onnx", devices=each) for each in (None, ["cpu", "cpu"]))
    assert two.engine.name == "2 processes: onnx, cpu, float32"
    np.testing.assert_allclose(two.score(pairs), one.score(pairs), atol=1e-6)


def test_a_copy_starts_its_own(two):
    two.encode("fox")
    copy = pickle.loads(pickle.dumps(two))
    np.testing.assert_array_equal(copy.encode("fox"), two.encode("fox"))
    assert copy.engine is not two.engine


def test_an_engines_error_comes_back(two):
    batch = two.tokenizer.encode(["a fox"]).batch(np.array([0]), 0)
    batch.ids_BT[0, 1] = 10**6
    for _ in range(4):  # and every process goes on
        with pytest.raises(EngineError, match="engine onnx, cpu, float32: "):
            two.engine.vectors(batch)
    assert two.encode("fox").shape == (two.dim,)


@pytest.mark.slow
def test_a_killed_process_is_named(folder):
    known = set(multiprocessing.active_children())
    encoder = make(folder)
    encoder.encode(TEXTS)
    mine = [child for child in multiprocessing.active_children() if child not in known]
    assert len(mine) == 2
    for child in mine:
        os.kill(child.pid, signal.SIGKILL)
        child.join()
    for _ in range(2):  # it neither hangs nor forgets
        with pytest.raises(EngineError, match=r"the process for device 'cpu' was killed by signal 9.* new Encoder"):
            encoder.encode(TEXTS)


@pytest.mark.slow
def test_they_end_with_the_encoder(folder):
    known = set(multiprocessing.active_children())
    encoder = make(folder)
    encoder.encode("fox")
    mine = [child for child in multiprocessing.active_children() if child not in known]
    assert len(mine) == 2
    del encoder
    gc.collect()
    for child in mine:
        child.join(timeout=60)
    assert [child.exitcode for child in mine] == [0, 0]


def test_what_cannot_be_loaded_says_why(folder):
    with pytest.raises(ConfigurationError, match="no int8 export for onnx"):
        make(folder, precision="int8").encode("fox")
    with pytest.raises(ConfigurationError, match="the onnx engine computes on the CPU, not on 'cuda:7'"):
        make(folder, devices=["cuda:7"]).encode("fox")


@pytest.mark.parametrize("devices", [[], "cpu", [0, 1], [None]])
def test_devices_that_make_no_sense(folder, devices):
    with pytest.raises(ConfigurationError, match="devices must be a list such as"):
        Encoder(folder, devices=devices)


def test_device_and_devices_exclude_each_other(folder):
    with pytest.raises(ConfigurationError, match="device or devices, not both"):
        Encoder(folder, device="cpu", devices=["cpu"])


def test_a_script_without_a_guard_is_told(folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"from twinvec import Encoder\nEncoder({str(folder)!r}, devices=['cpu']).encode('fox')\n")
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 1
    assert run.stderr.strip().splitlines()[-1].startswith("twinvec.errors.EngineError: the process for device 'cpu'")
    assert 'if __name__ == "__main__":' in run.stderr.strip().splitlines()[-1]


def test_a_fork_leaves_the_processes_alone(folder, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"""
import os
import numpy as np
from twinvec import Encoder
from twinvec.errors import EngineError
if __name__ == "__main__":
    encoder = Encoder({str(folder)!r}, engine="onnx", devices=["cpu"])
    vector = encoder.encode("fox")
    child = os.fork()
    if child == 0:
        try:
            encoder.encode("fox")
        except EngineError as error:
            os._exit(7 if "belongs to the process that forked this one" in str(error) else 1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert np.array_equal(encoder.encode("fox"), vector)
""")
    subprocess.run([sys.executable, script], timeout=300, check=True)


@pytest.mark.slow
def test_the_command_takes_several_devices(twinvec, folder, tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    known = set(multiprocessing.active_children())
    for row, devices in enumerate((["--device", "cpu"], ["--device", "cpu", "--device", "cpu"])):
        options = ["--engine", "onnx", *devices, "--model", folder]
        done = twinvec("encode", tmp_path / "texts.txt", "-o", tmp_path / f"{row}.npy", *options)
        assert done.code == 0, done.err
    one, two = (np.load(tmp_path / f"{row}.npy") for row in range(2))
    np.testing.assert_allclose(one, two, atol=1e-6)
    assert len(one) == len(TEXTS)
    gc.collect()
    for child in set(multiprocessing.active_children()) - known:
        child.join(timeout=60)
        assert child.exitcode == 0


def test_an_error_with_arguments_of_its_own_can_be_sent():
    error = MissingExtraError("onnxruntime", "onnx", "the ONNX engine")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_cores_that_are_stated(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = available_cores()
    for stated, expected in (("1", 1), ("1,2", 1), ("1000", cores), ("0", cores), ("many", cores), ("", cores)):
        monkeypatch.setenv("OMP_NUM_THREADS", stated)
        assert available_cores() == expected


def test_after_an_interrupt_no_answer_is_taken_for_another(folder, monkeypatch):
    encoder = make(folder, devices=["cpu"])
    encoder.encode("fox")

    def interrupted(self):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("multiprocessing.connection.Connection.recv", interrupted)
        with pytest.raises(KeyboardInterrupt):
            encoder.encode("a cat")
    with pytest.raises(EngineError, match="when a call was interrupted; make a new Encoder"):
        encoder.encode("fox")


class CountsThreads:
    """Answers with the number of threads that torch computes with."""

    name, workers, token_budget = "counting", 1, 1

    def vectors(self, batch):
        return np.full((1, 1), torch.get_num_threads())


def counts_threads(device):
    """Brings torch along, since it is unpickled from a file that imports it before anything else is done."""
    return CountsThreads()


@pytest.mark.slow
def test_processes_that_have_torch_already_share_the_cores(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    share = max(1, available_cores() // 2)
    monkeypatch.setenv("OMP_NUM_THREADS", str(2 * share + 1))
    engine = ProcessesEngine(counts_threads, ["cpu", "cpu"])
    nothing = Batch(np.zeros((1, 1), np.int64), np.ones((1, 1), np.int64))
    assert engine.vectors(nothing).item() == share
