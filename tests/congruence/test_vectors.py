"""Vectors equal those of sentence-transformers: the default model on mixed texts, and every backbone.

The reference runs each text as it does by itself: sorted, batched by count, padded to the longest.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import models
from cases import slow
from twinvec import Encoder

_WORDS = (
    "the of and to in search model vector 3.14 2026-11-21 don't e-mail@example.com https://example.com/?q=a+b#c "
    "naïve Größe straße İstanbul ﬁne ① ½ Ελλάδα Москва تجربة עברית हिन्दी ไทยแลนด์ 日本語 中文 한국어 👩‍👩‍👧 🎉 🇩🇪 "
    "e\u0301le\u0300ve \u200b \u00ad \ufeff \u00a0 \x00 \x07 \ufffd \U0010ffff [CLS] [SEP] <s> </s> <mask> ##ing "
    "antidisestablishmentarianism WWWWWWWWWWWWWWWWWWWW {} () -- … “quoted” C++ x**2 \\n & < >"
)
WORDS = _WORDS.split(" ")
LENGTHS = [1, 2, 3, 4, 5, 8, 13, 21]


def mixed_texts(count: int, longest: int, seed: int = 7) -> list[str]:
    """Texts of 1 to ``longest`` words, most of them short, with blanks and line breaks of all sorts."""
    rng = random.Random(seed)
    edges = ["", " ", "\n\t ", "a", "\x00", "\u200b", "🎉", " the  of ", "[CLS] a [SEP]"]
    sizes = [rng.choice(LENGTHS) for _ in range(count - len(edges))]
    for index, size in zip(range(0, len(sizes), max(1, len(sizes) // 25)), _spread(longest), strict=False):
        sizes[index] = size  # some of every length
    return edges + [rng.choice(" \n\t\u3000\u2028").join(rng.choices(WORDS, k=size)) for size in sizes]


def _spread(longest: int) -> list[int]:
    return [longest, *np.geomspace(60, longest, 24).astype(int).tolist()]


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a * b).sum(1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


def assert_equal(ours: np.ndarray, theirs: np.ndarray) -> None:
    """The same direction and the same length, to rounding."""
    assert ours.shape == theirs.shape
    assert ours.dtype == np.float32
    assert np.isfinite(ours).all()
    worst = cosines(ours.astype(np.float64), theirs.astype(np.float64)).min()
    assert worst >= 0.99999, f"worst cosine {worst:.8f}"
    np.testing.assert_allclose(np.linalg.norm(ours, axis=1), np.linalg.norm(theirs, axis=1), rtol=1e-4)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    found = mixed_texts(150, 2000)
    assert len(set(found)) > 130  # the texts differ
    assert max(len(text.split()) for text in found) >= 1900
    return found


@pytest.fixture(scope="module")
def vectors(encoder, texts) -> np.ndarray:
    return encoder.encode(texts)


@pytest.fixture(scope="module")
def theirs(reference, texts) -> np.ndarray:
    return reference.encode(texts, batch_size=64)


def check_default_model(vectors, theirs, texts):
    assert sum(len(text.split()) > 200 for text in texts) > 10  # beyond the model's limit
    assert_equal(vectors, theirs)
    others = cosines(vectors[10:-1].astype(np.float64), theirs[11:].astype(np.float64))
    assert np.median(others) < 0.9, "texts are too alike to tell vectors apart"


@pytest.mark.slow
def test_default_model_equals_sentence_transformers(vectors, theirs, texts):
    check_default_model(vectors, theirs, texts)


@pytest.mark.slow
def test_default_model_equals_sentence_transformers_on_a_thousand_texts(encoder, reference):
    texts = mixed_texts(1000, 2000)
    assert len(set(texts)) > 900
    check_default_model(encoder.encode(texts), reference.encode(texts, batch_size=64), texts)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [1, 8000])
def test_order_and_batch_size_do_not_matter(vectors, texts, budget):
    chosen = np.random.default_rng(budget).permutation(len(texts))[:50]
    again = Encoder("default", token_budget=budget).encode([texts[i] for i in chosen])
    assert_equal(again, vectors[chosen])


@pytest.mark.slow
def test_stream_gives_the_same_vectors(encoder, vectors, texts):
    parts = list(encoder.encode_stream(iter(texts), window=40))
    assert [len(part) for part in parts] == [40, 40, 40, 30]
    assert_equal(np.concatenate(parts), vectors)


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 100, 384])
def test_truncated_dimension(reference, texts, dim):
    some = [text for text in texts if len(text) < 100][:30]
    theirs = reference.encode(some, truncate_dim=dim, normalize_embeddings=True)
    assert_equal(Encoder("default", dim=dim).encode(some), theirs)


def load_reference(folder: Path, kind: str):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    # roberta-like models have fewer positions than sentence-transformers believes, and fail beyond them
    model.max_seq_length = min(model.max_seq_length, models.LONGEST[kind])
    return model


@pytest.fixture(scope="module")
def short_texts() -> list[str]:
    words_at_the_limit = [" ".join(["a"] * count) for count in range(58, 72)]
    return mixed_texts(80, 150, seed=3) + words_at_the_limit


@pytest.mark.parametrize("kind", models.BACKBONES)
def test_every_backbone(tiny_model, short_texts, kind):
    folder = tiny_model(kind)
    ours = Encoder(folder)
    theirs = load_reference(folder, kind)
    assert ours.max_tokens == models.LONGEST[kind]
    assert_equal(ours.encode(short_texts), theirs.encode(short_texts, batch_size=16))
    assert ours.truncated > 0


@pytest.mark.parametrize("kind", models.BACKBONES)
def test_every_backbone_without_padding_of_others(tiny_model, short_texts, kind):
    encoder = Encoder(tiny_model(kind))
    alone = np.stack([encoder.encode(text) for text in short_texts[:30]])
    assert_equal(alone, encoder.encode(short_texts)[:30])


POOLINGS = [
    ("max",),
    ("cls",),
    ("mean_sqrt_len_tokens",),
    ("weightedmean",),
    ("lasttoken",),
    ("cls", "max", "mean"),
    ("lasttoken", "weightedmean", "mean_sqrt_len_tokens"),
]


@pytest.mark.parametrize("kind", ["bert", slow("roberta")])
@pytest.mark.parametrize("pooling", POOLINGS, ids="+".join)
def test_every_pooling(tiny_model, short_texts, kind, pooling):
    folder = tiny_model(kind, pooling=pooling, normalize=False)
    assert_equal(Encoder(folder).encode(short_texts), load_reference(folder, kind).encode(short_texts))


@pytest.mark.parametrize("activation", ["Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid"])
def test_dense_with_every_activation(tiny_model, short_texts, activation):
    folder = tiny_model("bert", pooling=("mean", "max"), dense=((24, activation), (16, "Identity")), normalize=False)
    encoder = Encoder(folder)
    assert encoder.dim == 16
    assert_equal(encoder.encode(short_texts), load_reference(folder, "bert").encode(short_texts))


@pytest.mark.parametrize("kind", ["bert", slow("roberta"), slow("xlm-roberta"), slow("modernbert")])
@pytest.mark.parametrize("include_prompt", [True, False])
@pytest.mark.parametrize("pooling", [("mean",), ("cls", "weightedmean", "lasttoken")], ids="+".join)
def test_prompts(tiny_model, short_texts, kind, include_prompt, pooling):
    prompts = {"query": "Find what answers this: ", "document": "text: ", "topic": "Größe 3: "}
    folder = tiny_model(kind, prompts=prompts, default_prompt="topic", include_prompt=include_prompt, pooling=pooling)
    ours, theirs = Encoder(folder), load_reference(folder, kind)
    some = short_texts[:50]
    assert_equal(ours.encode(some), theirs.encode(some))
    assert_equal(ours.encode_query(some), theirs.encode_query(some))
    assert_equal(ours.encode_document(some), theirs.encode_document(some))
    assert_equal(ours.encode(some, prompt=""), theirs.encode(some, prompt=""))
    difference = np.abs(ours.encode_query(some) - ours.encode(some, prompt="")).max()
    assert difference > 1e-3, "the prompt changes nothing"


@pytest.mark.parametrize("kind", ["bert", slow("roberta"), "mpnet"])
@pytest.mark.parametrize("max_tokens", [slow(3), 17])
def test_max_tokens(tiny_model, short_texts, kind, max_tokens):
    folder = tiny_model(kind, max_tokens=max_tokens)
    encoder = Encoder(folder)
    assert encoder.max_tokens == max_tokens
    theirs = load_reference(folder, kind).encode(short_texts)
    assert_equal(encoder.encode(short_texts), theirs)
    assert_equal(Encoder(tiny_model(kind), max_tokens=max_tokens).encode(short_texts), theirs)


@pytest.mark.parametrize("kind", ["roberta", "modernbert", "xlm-roberta"])
def test_lower_case(tiny_model, short_texts, kind):
    shouting = [text.upper() for text in short_texts[:40]] + short_texts[:40]
    folder = tiny_model(kind, lower_case=True)
    encoder = Encoder(folder)
    assert_equal(encoder.encode(shouting), load_reference(folder, kind).encode(shouting))


def test_truncate_dim_of_the_folder(tiny_model, short_texts):
    folder = tiny_model("bert", truncate_dim=10, normalize=False)
    encoder = Encoder(folder)
    assert encoder.dim == 10
    assert_equal(encoder.encode(short_texts), load_reference(folder, "bert").encode(short_texts))


def test_bare_backbone_is_pooled_by_the_mean(tmp_path, short_texts):
    folder = models.save_backbone(tmp_path / "bare", "distilbert")
    encoder = Encoder(folder)
    assert not encoder.normalizes
    assert_equal(encoder.encode(short_texts), load_reference(folder, "distilbert").encode(short_texts))
