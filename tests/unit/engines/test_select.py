"""A GPU that is not there is an error when an object is made."""

from __future__ import annotations

import pytest

from langchain_twinvec import TwinvecCrossEncoder, TwinvecEmbeddings, TwinvecReranker
from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.postprocessor.twinvec_rerank import TwinvecRerank
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


@pytest.mark.parametrize("device", [None, "cpu"])
def test_other_devices_are_not_looked_for(device, monkeypatch) -> None:
    monkeypatch.setattr(select, "has_gpu", None)
    select.check_device(device)


def test_a_gpu_that_is_there_is_taken(monkeypatch) -> None:
    monkeypatch.setattr(select, "has_gpu", lambda: True)
    select.check_device("cuda")
