"""The objectives against sentence-transformers' losses: value and gradient in float64, to 1e-6."""

from __future__ import annotations

import pytest
import torch
from sentence_transformers.sentence_transformer import losses as theirs
from sentence_transformers.sentence_transformer.losses.contrastive import SiameseDistanceMetric
from sentence_transformers.sentence_transformer.losses.triplet import TripletDistanceMetric
from sentence_transformers.util import dot_score, pairwise_cos_sim, pairwise_dot_score

from twinvec.errors import ConfigurationError
from twinvec.training import objectives

TOLERANCE = 1e-6


def vectors(count, rows=9, dim=7, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(rows, dim, dtype=torch.float64, generator=generator).requires_grad_() for _ in range(count)]


def assert_equal(ours, expected, inputs):
    """Value and gradients; the gradients are not zero, so that equality says something."""
    our_gradients = torch.autograd.grad(ours, inputs, retain_graph=True)
    gradients = torch.autograd.grad(expected, inputs)
    torch.testing.assert_close(ours, expected, atol=TOLERANCE, rtol=0)
    for mine, reference in zip(our_gradients, gradients, strict=True):
        torch.testing.assert_close(mine, reference, atol=TOLERANCE, rtol=0)
    assert any(gradient.abs().max() > 1e-3 for gradient in gradients)


@pytest.fixture
def nothing():
    """Their losses keep a model; none is needed where vectors are given."""
    return torch.nn.Identity()


@pytest.mark.parametrize("negatives", [0, 1, 3])
@pytest.mark.parametrize(("similarity", "scale"), [("cosine", 20.0), ("dot", 1.0)])
def test_info_nce(nothing, negatives, similarity, scale):
    arms = vectors(2 + negatives)
    options = {} if similarity == "cosine" else {"similarity_fct": dot_score}
    reference = theirs.MultipleNegativesRankingLoss(nothing, scale=scale, **options)
    ours = objectives.info_nce(arms[0], torch.cat(arms[1:]), scale=scale, similarity=similarity)
    assert_equal(ours, reference.compute_loss_from_embeddings(arms, None), arms)


@pytest.mark.parametrize("negatives", [0, 2])
def test_symmetric_info_nce(nothing, negatives):
    arms = vectors(2 + negatives)
    reference = theirs.MultipleNegativesRankingLoss(
        nothing, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction"
    )
    ours = objectives.info_nce(arms[0], torch.cat(arms[1:]), symmetric=True)
    assert_equal(ours, reference.compute_loss_from_embeddings(arms, None), arms)


DISTANCES = {
    "cosine": SiameseDistanceMetric.COSINE_DISTANCE,
    "euclidean": SiameseDistanceMetric.EUCLIDEAN,
    "manhattan": SiameseDistanceMetric.MANHATTAN,
}


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("margin", [0.5, 4.0])
def test_contrastive_is_twice_theirs(nothing, distance, margin):
    arms = vectors(2)
    labels = torch.tensor([1, 0, 0, 1, 0, 1, 1, 0, 0])
    reference = theirs.ContrastiveLoss(nothing, DISTANCES[distance], margin=margin)
    ours = objectives.contrastive(*arms, labels, distance=distance, margin=margin)
    assert_equal(ours, 2 * reference.compute_loss_from_embeddings(arms, labels), arms)


@pytest.mark.parametrize("distance", DISTANCES)
@pytest.mark.parametrize("labels", [[1, 0, 0, 1, 0, 1, 1, 0, 0], [1] * 9, [0] * 9])
def test_online_contrastive(nothing, distance, labels):
    arms = vectors(2)
    labels = torch.tensor(labels)
    reference = theirs.OnlineContrastiveLoss(nothing, DISTANCES[distance], margin=6.0)
    ours = objectives.online_contrastive(*arms, labels, distance=distance, margin=6.0)
    assert_equal(ours, reference.compute_loss_from_embeddings(arms, labels), arms)


@pytest.mark.parametrize("distance", ["cosine", "euclidean", "manhattan"])
def test_triplet(nothing, distance):
    arms = vectors(3)
    metric = vars(TripletDistanceMetric)[distance.upper()]
    reference = theirs.TripletLoss(nothing, metric, triplet_margin=1.0)
    ours = objectives.triplet(*arms, distance=distance)
    assert_equal(ours, reference.compute_loss_from_embeddings(arms, None), arms)


def test_cosine_regression(nothing):
    arms = vectors(2)
    targets = torch.linspace(-1, 1, 9, dtype=torch.float64)
    reference = theirs.CosineSimilarityLoss(nothing)
    # theirs makes the targets float32
    expected = reference.compute_loss_from_embeddings(arms, targets)
    assert_equal(objectives.cosine_regression(*arms, targets), expected, arms)


@pytest.mark.parametrize("negatives", [1, 3])
@pytest.mark.parametrize(("similarity", "scale"), [("dot", 1.0), ("cosine", 1.0), ("cosine", 7.0)])
def test_margin_mse(nothing, negatives, similarity, scale):
    arms = vectors(2 + negatives)
    scores = torch.linspace(-3, 5, 9 * (1 + negatives)).reshape(9, -1)  # theirs makes the scores float32
    compare = {"dot": pairwise_dot_score, "cosine": pairwise_cos_sim}[similarity]
    reference = theirs.MarginMSELoss(nothing, similarity_fct=lambda *pair: scale * compare(*pair))
    margins = (scores[:, :1] - scores[:, 1:]).T.flatten()
    anchors, positives = (arm.repeat(negatives, 1) for arm in arms[:2])
    ours = objectives.margin_mse(anchors, positives, torch.cat(arms[2:]), margins, similarity=similarity, scale=scale)
    assert_equal(ours, reference.compute_loss_from_embeddings(arms, scores), arms)


def test_margin_mse_refuses_arms_that_do_not_fit():
    arms, margins = vectors(3), torch.zeros(9)
    for wrong in ((*arms[:2], arms[2][:4], margins), (*arms, margins[:4])):
        with pytest.raises(ConfigurationError, match=r"margin_mse: expected two tensors \(B, D\) and one \(B,\)"):
            objectives.margin_mse(*wrong)
    with pytest.raises(ConfigurationError, match="margin_mse: similarity must be 'cosine' or 'dot', got 'euclidean'"):
        objectives.margin_mse(*arms, margins, similarity="euclidean")


@pytest.mark.parametrize(
    ("concatenation", "flags"),
    [
        ("u,v", (True, False, False)),
        ("|u-v|", (False, True, False)),
        ("u*v", (False, False, True)),
        ("|u-v|,u*v", (False, True, True)),
        ("u,v,u*v", (True, False, True)),
        ("u,v,|u-v|", (True, True, False)),
        ("u,v,|u-v|,u*v", (True, True, True)),
    ],
)
def test_softmax_classification(nothing, monkeypatch, concatenation, flags):
    arms = vectors(2)
    labels = torch.tensor([0, 1, 2, 2, 1, 0, 1, 1, 2])
    nothing.device = torch.device("cpu")
    reference = theirs.SoftmaxLoss(nothing, 7, 3, *flags).double()
    monkeypatch.setattr("sentence_transformers.sentence_transformer.losses.softmax.embed_columns", lambda *_: arms)
    head = reference.classifier
    features = objectives.pair_features(*arms, concatenation)
    ours = objectives.softmax_classification(features, labels, head.weight, head.bias)
    assert_equal(ours, reference([], labels), [*arms, head.weight, head.bias])
    assert set(objectives.CONCATENATIONS) >= {concatenation}


def test_any_parts_may_be_put_side_by_side():
    u_BD, v_BD = vectors(2)
    features = objectives.pair_features(u_BD, v_BD, "(u*v, u)")
    torch.testing.assert_close(features, torch.cat([u_BD * v_BD, u_BD], dim=1), rtol=0, atol=0)
    for wrong in ("u,u", "u,", "", "w", "u+v"):
        with pytest.raises(ConfigurationError, match="is unknown; it must be some of"):
            objectives.concatenation_parts(wrong)
