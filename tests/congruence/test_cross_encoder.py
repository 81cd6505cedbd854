"""Scores of cross-encoders equal those of sentence-transformers' ``CrossEncoder.predict``."""

from __future__ import annotations

import json
import random
import shutil

import numpy as np
import pytest

import models
from cases import slow
from twinvec import CrossEncoderReranker

_WORDS = "how do i compare two files the fox jumps Größe 日本語 moon 384,400 query(document) ; hits"
WORDS = _WORDS.split()
INPUTS = ["input_ids", "attention_mask"]


@pytest.fixture(scope="module")
def pairs() -> list[tuple[str, str]]:
    rng = random.Random(5)
    made = [
        (" ".join(rng.choices(WORDS, k=rng.randint(0, 40))), " ".join(rng.choices(WORDS, k=rng.randint(0, 90))))
        for _ in range(60)
    ]
    return [*made, ("", ""), ("fox", ""), ("", "fox"), made[0]]


def reference(folder, kind):
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(folder), device="cpu", max_length=models.LONGEST[kind])


@pytest.mark.parametrize("kind", models.BACKBONE_CASES)
@pytest.mark.parametrize(
    ("engine", "budget"), [("torch", 1), slow("torch", None), ("openvino", 200), slow("onnx", 200)]
)
def test_scores_of_every_backbone(tiny_cross_encoder, pairs, kind, engine, budget, tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path))
    folder = tiny_cross_encoder(kind)
    reranker = CrossEncoderReranker(folder, engine=engine, token_budget=budget)
    assert reranker.engine.name == f"{engine}, cpu, float32"
    theirs = reference(folder, kind).predict(pairs, batch_size=7)
    ours = reranker.score(pairs)
    assert reranker.max_tokens == models.LONGEST[kind]
    assert ours.dtype == np.float32
    assert theirs.std() > 0.01, "scores are too alike to tell pairs apart"
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_segments_matter_to_bert(tiny_cross_encoder, pairs):
    """Guards the comparison above: without segments the scores would differ."""
    reranker = CrossEncoderReranker(tiny_cross_encoder("bert"))
    tokens = reranker._model.tokenizer.encode_pairs(pairs[:5])
    batch = tokens.batch(np.arange(5), reranker._model.tokenizer.pad_id)
    without = type(batch)(batch.ids_BT, batch.mask_BT)
    assert np.abs(reranker.engine.logits(batch) - reranker.engine.logits(without)).max() > 1e-3


@pytest.mark.parametrize(
    ("settings", "segments"),
    [
        ({"tokenizer_class": "TokenizersBackend"}, False),
        ({"tokenizer_class": "TokenizersBackend", "model_input_names": [*INPUTS, "token_type_ids"]}, True),
        ({"model_input_names": INPUTS}, False),
    ],
)
def test_only_named_inputs_have_segments(tiny_cross_encoder, tmp_path, pairs, settings, segments):
    """A tokenizer of one's own often names its inputs, or belongs to no class of a model."""
    folder = shutil.copytree(tiny_cross_encoder("bert"), tmp_path / "own")
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    ours = CrossEncoderReranker(folder).score(pairs)
    np.testing.assert_allclose(ours, reference(folder, "bert").predict(pairs), atol=1e-5)
    unchanged = CrossEncoderReranker(tiny_cross_encoder("bert")).score(pairs)
    assert np.allclose(ours, unchanged, atol=1e-5) == segments


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid"])
def test_stated_activation(tiny_cross_encoder, pairs, activation):
    import torch

    folder = tiny_cross_encoder("bert", activation_fn=getattr(torch.nn, activation)())
    ours = CrossEncoderReranker(folder).score(pairs)
    np.testing.assert_allclose(ours, reference(folder, "bert").predict(pairs), atol=1e-5)
    assert (ours.min() < 0) == (activation == "Identity")


@pytest.mark.parametrize(
    "settings",
    [
        {"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"},
        {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0"}},
        {},
    ],
    ids=["before 4", "before 6", "plain"],
)
def test_folders_of_old(tiny_cross_encoder, tmp_path, pairs, settings):
    folder = shutil.copytree(tiny_cross_encoder("roberta"), tmp_path / "old")
    for name in ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json"):
        (folder / name).unlink()
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))
    ours = CrossEncoderReranker(folder).score(pairs)
    np.testing.assert_allclose(ours, reference(folder, "roberta").predict(pairs), atol=1e-5)
    assert (ours.min() < 0) == bool(settings)


def test_max_tokens_cuts_the_longer_side_first(tiny_cross_encoder, pairs):
    from sentence_transformers import CrossEncoder

    folder = tiny_cross_encoder("bert")
    ours = CrossEncoderReranker(folder, max_tokens=20).score(pairs)
    np.testing.assert_allclose(ours, CrossEncoder(str(folder), device="cpu", max_length=20).predict(pairs), atol=1e-5)
