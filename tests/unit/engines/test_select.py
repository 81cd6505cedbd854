"""A device that is not there, or that nobody knows, is an error when an object is made."""

from __future__ import annotations

import subprocess
import sys

import pytest

from langchain_twinvec import TwinvecCrossEncoder, TwinvecEmbeddings, TwinvecReranker
from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.postprocessor.twinvec_rerank import TwinvecRerank
from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines import select


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
@pytest.mark.parametrize(
    "make",
    [
        lambda device: TwinvecEmbeddings(device=device),
        lambda device: TwinvecEmbeddings(model_kwargs={"device": device}),
        lambda device: TwinvecEmbedding(device=device),
        lambda device: TwinvecReranker(device=device),
        lambda device: TwinvecCrossEncoder(model="cross-encoder/any", device=device),
        lambda device: TwinvecRerank(device=device),
    ],
)
def test_it_is_named_with_what_to_do(make, device, monkeypatch) -> None:
    monkeypatch.setattr(select, "has_gpu", lambda: False)
    with pytest.raises(ValueError, match=rf"{device}.*leave device out"):  # LangChain's classes are pydantic's
        make(device)


@pytest.mark.parametrize("device", ["foo", "cuda:x", "cuda:01", "CPU"])
def test_a_name_that_no_device_has_is_refused_when_an_object_is_made(tiny_model, tiny_cross_encoder, device):
    for make in (
        lambda: Encoder(tiny_model("bert"), device=device),
        lambda: Encoder(tiny_model("bert"), devices=["cpu", device]),
        lambda: CrossEncoderReranker(tiny_cross_encoder("bert"), device=device),
        lambda: TwinvecEmbeddings(model=str(tiny_model("bert")), device=device),
        lambda: TwinvecReranker(device=device),
    ):
        with pytest.raises(ValueError, match=f"device '{device}' cannot be used: "):
            make()


def printed(program, model):
    return subprocess.run([sys.executable, "-c", program, model], capture_output=True, text=True, check=True).stdout


def test_usual_names_are_known_without_torch(tiny_model):
    program = (
        "import sys\nfrom twinvec import Encoder\n"
        "for device in (None, 'cpu', 'cuda', 'cuda:11', 'mps', 'xpu:0', 'hpu'): Encoder(sys.argv[1], device=device)\n"
        "print('torch' in sys.modules)"
    )
    assert printed(program, tiny_model("bert")) == "False\n"


def test_a_device_that_another_package_adds_to_torch_is_taken(tiny_model):
    program = (
        "import sys, torch\nfrom twinvec import Encoder\ntorch.utils.rename_privateuse1_backend('npu')\n"
        "for device in ('npu', 'npu:1'): Encoder(sys.argv[1], device=device)\nprint('taken')"
    )
    assert printed(program, tiny_model("bert")) == "taken\n"


@pytest.mark.parametrize("device", [None, "cpu"])
def test_other_devices_are_not_looked_for(device, monkeypatch) -> None:
    monkeypatch.setattr(select, "has_gpu", None)
    select.check_device(device)


def test_a_gpu_that_is_there_is_taken(monkeypatch) -> None:
    monkeypatch.setattr(select, "has_gpu", lambda: True)
    select.check_device("cuda")
