"""Graphs give the vectors and token states of the torch engine, for every backbone, pooling and head."""

from __future__ import annotations

import numpy as np
import pytest

import models
from cases import slow
from congruence.test_vectors import assert_equal, cosines, mixed_texts
from twinvec import Encoder
from twinvec.engines.runtimes import RUNTIMES
from twinvec.export.model import export_model

each_runtime = pytest.mark.parametrize("engine", list(RUNTIMES))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Keeps the graphs of tiny models out of the user's cache."""
    monkeypatch.setenv("TWINVEC_CACHE", str(tmp_path))


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return mixed_texts(60, 120, seed=11)


@each_runtime
@pytest.mark.parametrize("kind", models.BACKBONE_CASES)
def test_every_backbone(cache, tiny_model, texts, kind, engine):
    folder = tiny_model(kind)
    theirs, ours = Encoder(folder, engine="torch"), Encoder(folder, engine=engine)
    vectors = theirs.encode(texts)
    assert ours.engine.name == f"{engine}, cpu, float32"
    assert ours.space == theirs.space
    assert_equal(ours.encode(texts), vectors)
    assert_equal(np.stack([ours.encode(text) for text in texts[:12]]), vectors[:12])
    for mine, other in zip(ours.encode_tokens(texts), theirs.encode_tokens(texts), strict=True):
        assert mine.shape == other.shape
        assert cosines(mine, other).min() > 0.99999
    assert np.median(cosines(vectors[10:-1], vectors[11:])) < 0.99, "texts are too alike to tell vectors apart"


@each_runtime
@pytest.mark.parametrize(("kind", "include_prompt"), [("bert", True), slow("xlm-roberta", False)])
def test_every_pooling_behind_prompts(cache, tiny_model, texts, kind, include_prompt, engine):
    pooling = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
    prompts = {"query": "Find what answers this: "}
    options = {"pooling": pooling, "prompts": prompts, "include_prompt": include_prompt, "normalize": False}
    folder = tiny_model(kind, **options)
    theirs, ours = Encoder(folder, engine="torch"), Encoder(folder, engine=engine)
    assert_equal(ours.encode(texts), theirs.encode(texts))
    vectors = theirs.encode_query(texts)
    assert_equal(ours.encode_query(texts), vectors)
    size = models.HIDDEN
    for part in range(len(pooling)):  # each by itself: a large one must not hide a small one
        columns = slice(part * size, (part + 1) * size)
        assert cosines(ours.encode_query(texts)[:, columns], vectors[:, columns]).min() > 0.99999


@pytest.mark.slow
@each_runtime
@pytest.mark.parametrize("activation", ["Tanh", "GELU"])
def test_heads_and_truncated_dimensions(cache, tiny_model, texts, activation, engine):
    folder = tiny_model("bert", dense=((24, activation), (16, "Identity")), truncate_dim=10)
    for options in ({}, {"dim": 3}, {"dim": 16}):
        theirs, ours = (Encoder(folder, engine=name, **options) for name in ("torch", engine))
        assert_equal(ours.encode(texts), theirs.encode(texts))


@pytest.mark.slow
@each_runtime
def test_the_default_model(encoder, texts, engine):
    theirs, ours = Encoder("default", engine="torch"), Encoder("default", engine=engine)
    assert_equal(ours.encode(texts), theirs.encode(texts))
    for mine, other in zip(ours.encode_tokens(texts[:20]), theirs.encode_tokens(texts[:20]), strict=True):
        assert cosines(mine, other).min() > 0.99999


@pytest.mark.slow
@each_runtime
@pytest.mark.parametrize(("kind", "include_prompt"), [("modernbert", True), ("xlm-roberta", False)])
def test_int8_is_near(cache, tiny_model, tmp_path, texts, kind, include_prompt, engine):
    folder = tiny_model(kind, include_prompt=include_prompt, prompts={"document": "group: "}, pooling=("mean", "cls"))
    export_model(folder, tmp_path / "int8", engine=engine, precision="int8", calibrate=mixed_texts(100, 60, seed=12))
    exact, ours = Encoder(folder, engine="torch"), Encoder(tmp_path / "int8", precision="int8")
    vectors = exact.encode_document(texts)
    near = cosines(ours.encode_document(texts), vectors)
    assert np.quantile(near, 0.1) > 0.95
    assert near.min() < 1 - 1e-6, "these are the vectors of float32"
    alone = np.stack([ours.encode_document(text) for text in texts[:20]])
    assert cosines(ours.encode_document(texts)[:20], alone).min() > 0.9995
    states = zip(ours.encode_tokens(texts[10:20]), exact.encode_tokens(texts[10:20]), strict=True)
    assert all(np.median(cosines(mine, theirs)) > 0.95 for mine, theirs in states)


@pytest.mark.slow
def test_auto_is_exact(encoder, texts):
    assert_equal(encoder.encode(texts), Encoder("default", engine="torch").encode(texts))
