"""The objectives of training as pure functions: each returns a loss, given the vectors of the texts.

The formula of ``info_nce`` is in the module ``twinvec.training.info_nce``. Each function returns a scalar, the mean
over its rows unless its docstring says otherwise.
Shapes: B rows of a batch, D dimensions, F features, K classes.
"""

from __future__ import annotations

from typing import Literal

from twinvec.errors import ConfigurationError
from twinvec.support.extras import require_training

require_training()
import torch  # noqa: E402 - after require_training, whose error says how to install torch
from torch import Tensor  # noqa: E402 - as above
from torch.nn import functional  # noqa: E402 - as above

from twinvec.training.info_nce import Similarity as Similarity  # noqa: E402 - as above
from twinvec.training.info_nce import check_similarity  # noqa: E402 - as above
from twinvec.training.info_nce import info_nce as info_nce  # noqa: E402 - as above

Distance = Literal["cosine", "euclidean", "manhattan"]

CONCATENATIONS = ("u,v", "|u-v|", "u*v", "|u-v|,u*v", "u,v,u*v", "u,v,|u-v|", "u,v,|u-v|,u*v")
"""The seven concatenations of Reimers and Gurevych 2019, table 6."""
_PARTS = ("u", "v", "|u-v|", "u*v")


def contrastive(
    u_BD: Tensor, v_BD: Tensor, labels_B: Tensor, *, distance: Distance = "cosine", margin: float = 0.5
) -> Tensor:
    """Pull positive pairs together, push negative pairs apart up to a margin (Hadsell et al. 2006, equation 4).

        loss = 1/B sum_i  y_i d_i^2 + (1 - y_i) max(margin - d_i, 0)^2

    The paper and sentence-transformers' ``ContrastiveLoss`` take half of this value.

    Args:
        u_BD: The first text of each pair.
        v_BD: The second text of each pair.
        labels_B: 1 for a positive pair, 0 for a negative pair; values between weight both terms.
        distance: "cosine" (1 - cosine), "euclidean" or "manhattan".
        margin: Distance beyond which a negative pair costs nothing.
    """
    _check_pairs("contrastive", u_BD, v_BD, labels_B)
    distances_B = _distance(u_BD, v_BD, distance, eps=1e-6)
    labels_B = labels_B.to(distances_B.dtype)
    return (labels_B * distances_B**2 + (1 - labels_B) * (margin - distances_B).relu() ** 2).mean()


def online_contrastive(
    u_BD: Tensor, v_BD: Tensor, labels_B: Tensor, *, distance: Distance = "cosine", margin: float = 0.5
) -> Tensor:
    """``contrastive`` over only the hard pairs of the batch, as a **sum** (as in sentence-transformers).

    A positive pair is hard if it is farther apart than the closest negative pair. A negative pair is hard if it is
    closer than the farthest positive pair. If all pairs of the batch are of one kind, their mean distance is
    the limit. Labels are 0 or 1.
    """
    _check_pairs("online_contrastive", u_BD, v_BD, labels_B)
    distances_B = _distance(u_BD, v_BD, distance, eps=1e-6)
    positives, negatives = distances_B[labels_B == 1], distances_B[labels_B == 0]
    hard_positives = positives[positives > (negatives.min() if len(negatives) else positives.mean())]
    hard_negatives = negatives[negatives < (positives.max() if len(positives) else negatives.mean())]
    return (hard_positives**2).sum() + ((margin - hard_negatives).relu() ** 2).sum()


def triplet(
    anchors_BD: Tensor,
    positives_BD: Tensor,
    negatives_BD: Tensor,
    *,
    distance: Distance = "euclidean",
    margin: float = 1.0,
) -> Tensor:
    """Push the negative farther from the anchor than the positive, by a margin (Reimers and Gurevych 2019, section 3,
    margin 1).

        loss = 1/B sum_i  max(d(a_i, p_i) - d(a_i, n_i) + margin, 0)
    """
    if not anchors_BD.shape == positives_BD.shape == negatives_BD.shape or anchors_BD.dim() != 2:
        raise ConfigurationError(
            "triplet: expected three tensors of one shape (B, D), got "
            f"{tuple(anchors_BD.shape)}, {tuple(positives_BD.shape)} and {tuple(negatives_BD.shape)}"
        )
    closer_B = _distance(anchors_BD, positives_BD, distance) - _distance(anchors_BD, negatives_BD, distance)
    return (closer_B + margin).relu().mean()


def cosine_regression(u_BD: Tensor, v_BD: Tensor, targets_B: Tensor) -> Tensor:
    """Mean squared error between the cosine of each pair and its target in [-1, 1] (Reimers and Gurevych 2019,
    section 3, regression).

        loss = 1/B sum_i  (cos(u_i, v_i) - t_i)^2
    """
    _check_pairs("cosine_regression", u_BD, v_BD, targets_B)
    cosines_B = torch.cosine_similarity(u_BD, v_BD)
    return functional.mse_loss(cosines_B, targets_B.to(cosines_B.dtype))


def margin_mse(
    anchors_BD: Tensor,
    positives_BD: Tensor,
    negatives_BD: Tensor,
    margins_B: Tensor,
    *,
    similarity: Similarity = "cosine",
    scale: float = 1.0,
) -> Tensor:
    """Mean squared error between the margin of each positive over its negative and the margin of a teacher (Hofstätter
    et al. 2020, Margin-MSE).

        loss = 1/B sum_i  (s(a_i, p_i) - s(a_i, n_i) - m_i)^2,    s(a, b) = scale * similarity(a, b)

    Args:
        anchors_BD: The anchor of each negative.
        positives_BD: The positive of each anchor.
        negatives_BD: One negative for each row.
        margins_B: The teacher's score of the positive minus its score of the negative.
        similarity: "cosine", or "dot" for the dot product of the vectors, as in the paper and sentence-transformers.
        scale: Factor of the similarity. Cosines reach margins from -2 * scale to 2 * scale.

    Raises:
        ConfigurationError: shapes do not fit, or ``similarity`` is unknown.
    """
    _check_pairs("margin_mse", anchors_BD, positives_BD, margins_B)
    _check_pairs("margin_mse", anchors_BD, negatives_BD, margins_B)
    check_similarity("margin_mse", similarity)
    if similarity == "cosine":
        anchors_BD, positives_BD, negatives_BD = (
            functional.normalize(vectors_BD, dim=-1) for vectors_BD in (anchors_BD, positives_BD, negatives_BD)
        )
    found_B = (anchors_BD * (positives_BD - negatives_BD)).sum(dim=-1) * scale
    return functional.mse_loss(found_B, margins_B.to(found_B.dtype))


def pair_features(u_BD: Tensor, v_BD: Tensor, concatenation: str = "u,v,|u-v|") -> Tensor:
    """Return the classifier's features of pairs: (B, F) with F = D x parts (Reimers and Gurevych 2019, table 6).

    Args:
        u_BD: The first text of each pair.
        v_BD: The second text of each pair.
        concatenation: Any of u, v, |u-v| and u*v, in any order; spaces and outer parentheses are ignored.
    """
    parts = {"u": u_BD, "v": v_BD, "|u-v|": (u_BD - v_BD).abs(), "u*v": u_BD * v_BD}
    return torch.cat([parts[name] for name in concatenation_parts(concatenation)], dim=-1)


def concatenation_parts(concatenation: str) -> tuple[str, ...]:
    """Return the parts of a concatenation, in order.

    Raises:
        ConfigurationError: a part is unknown or is repeated.
    """
    parts = tuple(concatenation.replace(" ", "").removeprefix("(").removesuffix(")").split(","))
    if not set(parts) <= set(_PARTS) or len(set(parts)) < len(parts):
        raise ConfigurationError(
            f"concatenation {concatenation!r} is unknown; it must be some of {', '.join(_PARTS)}, each once, "
            "separated by commas"
        )
    return parts


def softmax_classification(
    features_BF: Tensor, labels_B: Tensor, weight_KF: Tensor, bias_K: Tensor | None = None
) -> Tensor:
    """Cross-entropy of a linear classifier over ``pair_features`` (Reimers and Gurevych 2019, section 3).

    loss = 1/B sum_i  -log softmax(W f_i + b)[label_i]
    """
    return functional.cross_entropy(functional.linear(features_BF, weight_KF, bias_K), labels_B)


def _check_pairs(name: str, u_BD: Tensor, v_BD: Tensor, labels_B: Tensor) -> None:
    if u_BD.shape != v_BD.shape or u_BD.dim() != 2 or labels_B.shape != u_BD.shape[:1]:
        raise ConfigurationError(
            f"{name}: expected two tensors (B, D) and one (B,), got {tuple(u_BD.shape)}, {tuple(v_BD.shape)} and "
            f"{tuple(labels_B.shape)}"
        )


def _distance(u_BD: Tensor, v_BD: Tensor, distance: str, eps: float = 0.0) -> Tensor:
    """Return the distance of each pair: (B,).

    Except for the cosine, ``eps`` is added to each difference: sentence-transformers' losses for pairs add 1e-6.
    """
    if distance == "cosine":
        return 1 - functional.cosine_similarity(u_BD, v_BD)
    orders = {"euclidean": 2, "manhattan": 1}
    if distance not in orders:
        raise ConfigurationError(f"distance must be 'cosine', 'euclidean' or 'manhattan', got {distance!r}")
    return functional.pairwise_distance(u_BD, v_BD, p=orders[distance], eps=eps)
