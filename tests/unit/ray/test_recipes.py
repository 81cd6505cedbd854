"""The encoder of a worker has the arguments of the driver's encoder."""

from __future__ import annotations

import pytest

from twinvec import Encoder
from twinvec.errors import TextError
from twinvec_ray.recipes import recipe_of


@pytest.fixture
def worker_encoder(monkeypatch):
    """``worker_encoder(encoder)``: the encoder that a worker loads."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return lambda encoder: recipe_of(encoder, {"device": "cpu"}).load(1)


def test_a_worker_has_the_arguments_of_the_driver(worker_encoder, tiny_model):
    given = {"engine": "torch", "precision": "bfloat16", "token_budget": 64, "max_text_bytes": 60, "dim": 8}
    encoder = worker_encoder(Encoder(tiny_model("bert"), **given))
    assert encoder.engine.name == "torch, cpu, bfloat16"
    assert encoder.engine_options.items() >= {"token_budget": 64, "max_text_bytes": 60}.items()
    assert encoder.encode(["fox"]).shape == (1, 8)
    with pytest.raises(TextError, match="60"):
        encoder.encode(["fox " * 20])


def test_arguments_that_are_not_given_are_the_defaults(worker_encoder, tiny_model):
    encoder = worker_encoder(Encoder(tiny_model("bert")))
    assert encoder.engine_options == Encoder("default").engine_options
