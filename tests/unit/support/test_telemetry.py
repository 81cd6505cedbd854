"""Nothing is reported to the makers of the libraries that compute."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from twinvec.support import telemetry

USE = """
import openvino_telemetry.utils.sender as sender

sent = []
sender.TelemetrySender.send = lambda self, *values: sent.append(values)
from twinvec import Encoder
from twinvec.export.quantization import import_nncf

import_nncf()
for engine in ("openvino", "onnx"):
    Encoder({model!r}, engine=engine).encode("fox")
assert sent == [], sent
"""


@pytest.mark.slow
def test_engines_report_nothing(tiny_model, tmp_path):
    switches = ("CI", "TF_BUILD", "JENKINS_URL", "ORT_DISABLE_TELEMETRY")
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TWINVEC_CACHE": str(tmp_path / "graphs")}
    environment = {name: value for name, value in os.environ.items() if name not in switches} | home
    code = USE.format(model=str(tiny_model("bert")))
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [path for path in tmp_path.rglob("*") if "onnxruntime" in path.name or "intel" in path.name.lower()] == []


def test_switches_are_the_users(monkeypatch):
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    telemetry.switch_off()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


@pytest.mark.parametrize("before", [None, "false"])
def test_a_switch_is_put_back(monkeypatch, before):
    monkeypatch.delenv("CI", raising=False)
    if before is not None:
        monkeypatch.setenv("CI", before)

    def fail():
        with telemetry.switched_off():
            assert os.environ["CI"] == "true"
            raise InterruptedError

    with pytest.raises(InterruptedError):
        fail()
    assert os.environ.get("CI") == before
