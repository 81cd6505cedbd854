"""EmbeddingLoss: the same value and gradients as sentence-transformers' losses, however the batch is cut."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.util import dot_score

import models
from cases import few_quick, slow
from models import build
from twinvec import Encoder
from twinvec.training.losses import modules as losses
from twinvec.training.losses.gradient_cache import embed_in_two_passes
from twinvec.training.losses.negatives_mask import text_hashes
from twinvec.training.losses.tiled_info_nce import InfoNCESettings
from twinvec.training.run.building import with_prompts

ANCHORS = ["how to list files", "a much longer question about the way in which one finds large files", "x", "copy"]
POSITIVES = [
    "ls -la",
    "find . -size +100M",
    "this one is the longest of all the positives, with many words in it",
    "cp",
]
NEGATIVES = ["rm -rf", "mv a b", "cat", "grep -r something in all the files below this folder"]


def features(model, *arms, hashed=False):
    tokens = [dict(model.preprocess(list(arm))) for arm in arms]
    if hashed:
        for arm, values in zip(arms, tokens, strict=True):
            values["text_hash"] = text_hashes(arm)
    return tokens


@pytest.mark.parametrize("include_prompt", [True, False])
def test_pooling_leaves_the_prompt_of_each_arm_out_where_the_model_does(tmp_path, include_prompt):
    prompts = {"query": "look for this: ", "document": "a text, ", "any": "say: "}
    built = build(tmp_path / "m", "bert", prompts=prompts, include_prompt=include_prompt, default_prompt="any")
    model = SentenceTransformer(str(built), device="cpu").eval()
    texts = {
        role: [f"{role} {n} " + "and so on " * n for n in range(3)] for role in ("anchor", "positive", "sentence1")
    }
    preprocess = with_prompts(model)
    found = []
    embed_in_two_passes(
        model,
        [preprocess(part, role) for role, part in texts.items()],
        lambda vectors_MD: found.append(vectors_MD.detach()) or vectors_MD.sum(),
        token_budget=40,
        kept_tokens=40,
    )
    encoder = Encoder(built)
    expected = [encoder.encode(part, prompt=p) for part, p in zip(texts.values(), prompts, strict=True)]
    np.testing.assert_allclose(found[0].numpy(), np.concatenate(expected), atol=1e-5)
    assert ("prompt_length" in preprocess(["a"], "anchor")) is not include_prompt


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", models.BACKBONE_CASES)
def test_vectors_are_those_of_an_encoder_whichever_side_is_padded(tmp_path, kind, side):
    built = models.build(tmp_path / "m", kind)
    model = SentenceTransformer(str(built), device="cpu").eval()
    model.tokenizer.padding_side = side
    model.max_seq_length = 60
    arms = [ANCHORS[2:], POSITIVES[1:]]
    widths = [arm["input_ids"].shape[1] for arm in features(model, *arms)]
    assert widths[0] < widths[1]
    found = []
    embed_in_two_passes(
        model,
        features(model, *arms),
        lambda vectors_MD: found.append(vectors_MD.detach()) or vectors_MD.sum(),
        token_budget=100,
        kept_tokens=0,
    )
    expected = Encoder(built, max_tokens=60).encode([text for arm in arms for text in arm])
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-5)


def step(model, loss, arms, labels=None):
    """Value and gradients of one step, from one random state."""
    model.zero_grad()
    torch.manual_seed(7)
    value = loss([dict(arm) for arm in arms], labels)  # models write into the features they are given
    after = torch.get_rng_state()
    value.backward()
    assert torch.equal(torch.get_rng_state(), after), "replaying must leave the random state as it was"
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    assert len(gradients) > 30
    return value.item(), gradients


def assert_same(one, other, tolerance=1e-5):
    assert one[0] == pytest.approx(other[0], abs=tolerance)
    assert one[1].keys() == other[1].keys()
    for name, gradient in one[1].items():
        torch.testing.assert_close(gradient, other[1][name], atol=tolerance, rtol=1e-4, msg=name)


@pytest.mark.parametrize("kept_tokens", [0, 40, 10**9])
@pytest.mark.parametrize("arms", [slow((ANCHORS, POSITIVES)), (ANCHORS, POSITIVES, NEGATIVES)])
def test_equals_their_ranking_loss(model, arms, kept_tokens):
    model.eval()  # without dropout: theirs draws it in another order
    ours = losses.EmbeddingLoss(model, losses.InfoNCELoss(), token_budget=30, kept_tokens=kept_tokens)
    expected = step(model, theirs.MultipleNegativesRankingLoss(model), features(model, *arms))
    assert_same(step(model, ours, features(model, *arms)), expected)
    assert expected[0] > 0.01


def test_equals_their_symmetric_loss(model):
    model.eval()
    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    symmetric = losses.InfoNCELoss(InfoNCESettings(symmetric=True))
    ours = losses.EmbeddingLoss(model, symmetric, token_budget=30, kept_tokens=0)
    expected = step(model, theirs.MultipleNegativesRankingLoss(model, **both), features(model, ANCHORS, POSITIVES))
    assert_same(step(model, ours, features(model, ANCHORS, POSITIVES)), expected)


@pytest.mark.slow
def test_dropout_is_replayed(model):
    model.train()
    arms = features(model, ANCHORS, POSITIVES, NEGATIVES, hashed=True)
    once, twice, partly = (
        step(model, losses.EmbeddingLoss(model, losses.InfoNCELoss(), token_budget=30, kept_tokens=kept), arms)
        for kept in (10**9, 0, 60)
    )
    assert_same(once, twice, 1e-6)
    assert_same(once, partly, 1e-6)
    model.eval()
    without = step(model, losses.EmbeddingLoss(model, losses.InfoNCELoss()), arms)
    assert abs(without[0] - once[0]) > 1e-3, "dropout was off, so nothing was tested"


@pytest.mark.parametrize("kept_tokens", [slow(10**9), 0])
def test_activations_that_are_computed_again_have_the_same_dropout(model, kept_tokens, monkeypatch):
    """Gradient checkpointing runs parts of the model once more within the backward pass."""
    model.train()
    arms = features(model, ANCHORS, POSITIVES)
    loss = losses.EmbeddingLoss(model, losses.InfoNCELoss(), token_budget=30, kept_tokens=kept_tokens)
    with monkeypatch.context() as patch:  # torch's own dropout, which draws other masks
        patch.setattr("twinvec.training.losses.gradient_cache.FastCpuOps", lambda **_: contextlib.nullcontext())
        whole = step(model, loss, arms)
    network = model[0].auto_model
    # transformers 5.24 deprecates the older names, which are the only ones of 5.9
    name = "activation" if hasattr(network, "activation_checkpointing_enable") else "gradient"
    getattr(network, f"{name}_checkpointing_enable")()
    try:
        assert_same(step(model, loss, arms), whole, 1e-6)
    finally:
        getattr(network, f"{name}_checkpointing_disable")()


def test_equal_texts_are_no_negatives(model):
    model.eval()
    positives = [POSITIVES[0], " LS  -la", *POSITIVES[2:]]
    loss = losses.EmbeddingLoss(model, losses.InfoNCELoss())
    masked, _ = step(model, loss, features(model, ANCHORS, positives, hashed=True))
    unmasked, _ = step(model, loss, features(model, ANCHORS, positives))
    assert masked < unmasked - 0.01


def test_hard_negatives_may_be_ragged(model):
    model.eval()
    loss = losses.EmbeddingLoss(model, losses.InfoNCELoss(), token_budget=30, kept_tokens=0)
    three = step(model, loss, features(model, ANCHORS, POSITIVES, NEGATIVES[:3]))
    four = step(model, loss, features(model, ANCHORS, POSITIVES, NEGATIVES))
    assert four[0] > three[0]


PAIRWISE = {
    "contrastive": (losses.ContrastiveLoss(), theirs.ContrastiveLoss, {}, 2.0),
    "online": (losses.ContrastiveLoss(online=True), theirs.OnlineContrastiveLoss, {}, 1.0),
    "cosine": (losses.CosineRegressionLoss(), theirs.CosineSimilarityLoss, {}, 1.0),
}


@pytest.mark.parametrize("name", few_quick(PAIRWISE, ["online", "cosine"]))
def test_labelled_pairs_equal_theirs(model, name):
    model.eval()
    ours, their_class, options, factor = PAIRWISE[name]
    labels = torch.tensor([1, 0, 0, 1])
    arms = features(model, ANCHORS, POSITIVES)
    value, gradients = step(model, their_class(model, **options), arms, labels)
    expected = value * factor, {key: gradient * factor for key, gradient in gradients.items()}
    assert_same(step(model, losses.EmbeddingLoss(model, ours, token_budget=30, kept_tokens=0), arms, labels), expected)


def test_triplet_equals_theirs(model):
    model.eval()
    arms = features(model, ANCHORS, POSITIVES, NEGATIVES)
    expected = step(model, theirs.TripletLoss(model, triplet_margin=1), arms)
    assert_same(step(model, losses.EmbeddingLoss(model, losses.TripletLoss(), token_budget=30), arms), expected)


def test_margins_of_a_teacher_equal_theirs(model):
    model.eval()
    scores = torch.tensor([[0.9, 0.1, 0.3], [0.4, 0.5, 0.0], [0.7, -0.2, 0.2], [1.0, 0.8, 0.9]])
    reference = theirs.MarginMSELoss(model)
    expected = step(model, reference, features(model, ANCHORS, POSITIVES, NEGATIVES, NEGATIVES[::-1]), scores)
    labels = torch.tensor([(row, scores[row, 0] - scores[row, place]) for place in (1, 2) for row in range(4)])
    arms = features(model, ANCHORS, POSITIVES, [*NEGATIVES, *NEGATIVES[::-1]])
    ours = losses.EmbeddingLoss(model, losses.MarginMSELoss("dot"), token_budget=30, kept_tokens=0)
    assert_same(step(model, ours, arms, labels), expected)


def test_softmax_equals_theirs_in_the_model_and_the_head(model):
    model.eval()
    ours = losses.SoftmaxLoss(384, ["yes", "no", "perhaps"])
    reference = theirs.SoftmaxLoss(model, 384, 3)
    reference.classifier.load_state_dict(ours.classifier.state_dict())
    labels = torch.tensor([0, 2, 1, 1])
    arms = features(model, ANCHORS, POSITIVES)
    expected = step(model, reference, arms, labels)
    assert_same(step(model, losses.EmbeddingLoss(model, ours, token_budget=30, kept_tokens=0), arms, labels), expected)
    torch.testing.assert_close(ours.classifier.weight.grad, reference.classifier.weight.grad)


@pytest.mark.parametrize(
    ("ours", "theirs_of"),
    [
        slow(losses.InfoNCELoss(), theirs.MultipleNegativesRankingLoss),
        (
            losses.InfoNCELoss(InfoNCESettings(similarity="dot")),
            lambda model: theirs.MultipleNegativesRankingLoss(model, similarity_fct=dot_score),
        ),
        (losses.TripletLoss(), lambda model: theirs.TripletLoss(model, triplet_margin=1.0)),
    ],
    ids=["cosine", "dot", "euclidean"],
)
def test_matryoshka_equals_theirs(model, ours, theirs_of):
    model.eval()
    arms = features(model, ANCHORS, POSITIVES, NEGATIVES)
    dims = [384, 128, 32]
    reference = theirs.MatryoshkaLoss(model, theirs_of(model), dims)
    leading = losses.MatryoshkaLoss(ours, dims, normalizes=True)
    ours = losses.EmbeddingLoss(model, leading, token_budget=30, kept_tokens=0)
    assert_same(step(model, ours, arms), step(model, reference, arms))


def test_matryoshka_leaves_the_length_of_vectors_to_a_model_that_does_not_normalise():
    arms = [torch.randn(4, 8), torch.randn(4, 8)]
    loss = losses.InfoNCELoss(InfoNCESettings(similarity="dot"))
    found = losses.MatryoshkaLoss(loss, [8, 2], normalizes=False)(arms, None, None)
    torch.testing.assert_close(found, loss(arms, None, None) + loss([arm[:, :2] for arm in arms], None, None))


def test_nothing_is_kept_when_gradients_are_off(model):
    loss = losses.EmbeddingLoss(model, losses.InfoNCELoss())
    with torch.no_grad():
        value = loss(features(model, ANCHORS, POSITIVES))
    assert not value.requires_grad
    assert value > 0


@pytest.mark.parametrize(("gigabytes", "budget"), [(80, 65536), (8, 50524), (4, 25262)])
def test_a_gpu_keeps_what_half_of_its_memory_holds(monkeypatch, gigabytes, budget):
    properties = SimpleNamespace(total_memory=gigabytes * 2**30)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: properties)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1217))
    found, kept = losses._chunk_tokens(layers, torch.device("cuda"))
    assert found == budget
    assert kept == gigabytes * 2**29 // (16 * 5313)
    assert losses._chunk_tokens(layers, torch.device("cpu")) == (1024, 6144)
    assert losses._chunk_tokens(layers, torch.device("mps")) == (16384, 16384)
