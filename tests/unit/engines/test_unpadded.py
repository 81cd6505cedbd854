"""Backbones without padding, with an attention of plain torch in the place of the GPU's."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

import models
from twinvec.engines.torch import TorchEngine, TorchScoringEngine, load_backbone
from twinvec.engines.unpadded import without_padding
from twinvec.models.encoder_spec import read_spec

VARLEN = "torch.nn.attention.varlen.varlen_attn"
WITHOUT_PADDING = [kind for kind in models.BACKBONES if kind != "mpnet"]


def text_by_text(query, key, value, bounds, key_bounds, longest, longest_key, *, scale, window_size):
    """What ``varlen_attn`` says that it computes."""
    assert bounds is key_bounds
    assert longest == longest_key == bounds.diff().max()
    found = torch.empty_like(query)
    for start, stop in pairwise(bounds):
        q, k, v = (part[start:stop].transpose(0, 1) for part in (query, key, value))
        scores = q @ k.transpose(1, 2) * scale
        places = torch.arange(stop - start)
        if window_size != (-1, -1):
            left, right = window_size
            away = places[None] - places[:, None]
            scores = scores.masked_fill((away < -left) | (away > right), float("-inf"))
        found[start:stop] = (scores.softmax(-1) @ v).transpose(0, 1)
    return found


def no_texts_apart(query, key, value, bounds, *_, **options):
    everything = bounds[[0, -1]]
    return text_by_text(query, key, value, everything, everything, len(query), len(query), **options)


def not_on_this_gpu(*arguments, **options):
    raise RuntimeError("FlashAttention only supports Ampere GPUs or newer")


def backbone_of(folder):
    return load_backbone(read_spec(folder).folder).eval()


def texts(padding):
    lengths = (9, 1, 50, 30)  # the third is longer than a window of ModernBERT
    mask_BT = (np.arange(50) < np.array(lengths)[:, None]).astype(np.int64)
    ids_BT = np.random.default_rng(1).integers(5, 40, mask_BT.shape)
    ids_BT[3, 7] = padding  # a text may hold the padding's name
    return np.where(mask_BT, ids_BT, padding), mask_BT


@pytest.fixture(autouse=True)
def inference():
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("kind", WITHOUT_PADDING)
def test_the_states_are_those_with_padding(tiny_model, kind, monkeypatch):
    monkeypatch.setattr(VARLEN, text_by_text)
    backbone = backbone_of(tiny_model(kind))
    ids_BT, mask_BT = texts(backbone.config.pad_token_id)
    padded = backbone(input_ids=torch.from_numpy(ids_BT), attention_mask=torch.from_numpy(mask_BT)).last_hidden_state
    states = without_padding(backbone, torch.from_numpy).states(ids_BT, mask_BT)
    tokens = torch.from_numpy(mask_BT == 1)
    torch.testing.assert_close(states[tokens], padded[tokens], atol=1e-5, rtol=1e-5)
    assert (states[~tokens] == 0).all()


@pytest.mark.parametrize("kind", ["bert", "modernbert", "xlm-roberta"])
@pytest.mark.parametrize("attention", [no_texts_apart, not_on_this_gpu])
def test_what_computes_something_else_is_not_used(tiny_model, kind, attention, monkeypatch):
    monkeypatch.setattr(VARLEN, attention)
    backbone = backbone_of(tiny_model(kind))
    ids_BT, mask_BT = (torch.from_numpy(each) for each in texts(backbone.config.pad_token_id))
    before = backbone(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state
    assert without_padding(backbone, torch.from_numpy) is None
    assert torch.equal(backbone(input_ids=ids_BT, attention_mask=mask_BT).last_hidden_state, before)


def test_mpnet_keeps_its_padding(tiny_model, monkeypatch):
    monkeypatch.setattr(VARLEN, text_by_text)
    assert without_padding(backbone_of(tiny_model("mpnet")), torch.from_numpy) is None


def test_an_engine_without_padding_gives_the_same_vectors(tiny_model, monkeypatch):
    from twinvec.tokens.batching import Batch

    monkeypatch.setattr(VARLEN, text_by_text)
    engine = TorchEngine(read_spec(tiny_model("bert")))
    ids_BT, mask_BT = texts(0)
    mask_BT[1] = 0  # a text without a token
    padded = engine.vectors(Batch(ids_BT, mask_BT))
    engine._unpadded = without_padding(engine._backbone, engine._send)
    np.testing.assert_allclose(engine.vectors(Batch(ids_BT, mask_BT)), padded, atol=1e-6)
    np.testing.assert_allclose(engine.states(Batch(ids_BT, mask_BT))[0, 9:], 0)


@pytest.mark.parametrize("kind", WITHOUT_PADDING)
def test_a_cross_encoder_without_padding_gives_the_same_logits(tiny_cross_encoder, kind, monkeypatch):
    from twinvec.tokens.batching import Batch

    folder = tiny_cross_encoder(kind, labels=2)
    padded = TorchScoringEngine(folder)
    ids_BT, mask_BT = texts(padded._model.config.pad_token_id or 0)
    batch = Batch(ids_BT, mask_BT, np.where(np.arange(50) > 4, mask_BT, 0))
    expected = padded.logits(batch)
    monkeypatch.setattr(VARLEN, text_by_text)
    monkeypatch.setattr(
        TorchScoringEngine, "_without_padding", lambda self, backbone: without_padding(backbone, self._send)
    )
    engine = TorchScoringEngine(folder)
    assert engine._unpadded is not None
    np.testing.assert_allclose(engine.logits(batch), expected, atol=1e-5)
    if kind == "bert":  # the other backbones have no segments
        assert np.abs(engine.logits(Batch(ids_BT, mask_BT)) - expected).max() > 1e-3
