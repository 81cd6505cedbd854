"""InfoNCE: the cross-entropy of picking each anchor's positive among all candidates, as a pure function.

``losses.tiled_info_nce`` computes the same value without the whole matrix of similarities.
Shapes: B anchors, N candidates, D dimensions.
"""

from __future__ import annotations

from typing import Literal

from twinvec.errors import ConfigurationError
from twinvec.support.extras import require_training

require_training()
import torch  # noqa: E402 - after require_training, whose error says how to install torch
from torch import Tensor  # noqa: E402 - as above
from torch.nn import functional  # noqa: E402 - as above

Similarity = Literal["cosine", "dot"]


def info_nce(
    anchors_BD: Tensor,
    candidates_ND: Tensor,
    *,
    scale: float = 20.0,
    similarity: Similarity = "cosine",
    symmetric: bool = False,
    excluded_BN: Tensor | None = None,
    false_negative_margin: float | None = None,
) -> Tensor:
    """Cross-entropy of picking each anchor's positive among all candidates (van den Oord et al. 2018, equation 4;
    with in-batch negatives Henderson et al. 2017, section 4.4).

        loss = 1/B sum_i  -log( exp(s_ii) / sum_j exp(s_ij) ),    s_ij = scale * similarity(anchor_i, candidate_j)

    Args:
        anchors_BD: One vector for each row.
        candidates_ND: Candidates 0..B-1 are the positives of the anchors, in order; the rest are hard negatives.
        scale: 1 / temperature.
        similarity: "cosine", or "dot" for the dot product of the vectors.
        symmetric: Average with the reverse direction, which picks each positive's anchor among all anchors.
        excluded_BN: True for a pair that must not count as a negative (equal texts, for example); ignored for an
            anchor and its own positive. The reverse direction leaves out the same pairs.
        false_negative_margin: Leave out negatives whose similarity, unscaled, exceeds the positive's by more than this;
            None keeps all.

    Raises:
        ConfigurationError: shapes do not fit, there are fewer candidates than anchors, or a setting is invalid.
    """
    check_info_nce(anchors_BD, candidates_ND, scale, similarity)
    rows = len(anchors_BD)
    if similarity == "cosine":
        anchors_BD = functional.normalize(anchors_BD, dim=-1)
        candidates_ND = functional.normalize(candidates_ND, dim=-1)
    scores_BN = anchors_BD @ candidates_ND.T * scale
    if excluded_BN is not None:
        if excluded_BN.shape != scores_BN.shape or excluded_BN.dtype != torch.bool:
            raise ConfigurationError(
                f"excluded_BN must be boolean of shape {tuple(scores_BN.shape)}, "
                f"got {excluded_BN.dtype} of shape {tuple(excluded_BN.shape)}"
            )
        scores_BN = _without(scores_BN, excluded_BN)
    margin = None if false_negative_margin is None else scale * false_negative_margin
    loss = _pick_diagonal(scores_BN, margin)
    if symmetric:
        loss = (loss + _pick_diagonal(scores_BN[:, :rows].T, margin)) / 2
    return loss


def _pick_diagonal(scores_BN: Tensor, margin: float | None) -> Tensor:
    """Return the mean cross-entropy of picking candidate i for anchor i; ``margin`` leaves out negatives."""
    positives_B = scores_BN.diagonal()
    if margin is not None:
        scores_BN = _without(scores_BN, scores_BN.detach() > (positives_B.detach() + margin).unsqueeze(1))
    return (scores_BN.logsumexp(dim=1) - positives_B).mean()


def _without(scores_BN: Tensor, left_out_BN: Tensor) -> Tensor:
    """Return the scores with minus infinity for the pairs left out, but not for an anchor and its own positive."""
    own_BN = torch.eye(*scores_BN.shape, dtype=torch.bool, device=scores_BN.device)
    return scores_BN.masked_fill(left_out_BN & ~own_BN, float("-inf"))


def check_info_nce(anchors_BD: Tensor, candidates_ND: Tensor, scale: float, similarity: str) -> None:
    """Raise ConfigurationError if the arguments of ``info_nce`` are invalid."""
    if anchors_BD.dim() != 2 or candidates_ND.dim() != 2 or anchors_BD.shape[1] != candidates_ND.shape[1]:
        raise ConfigurationError(
            f"info_nce: expected anchors (B, D) and candidates (N, D), got {tuple(anchors_BD.shape)} and "
            f"{tuple(candidates_ND.shape)}"
        )
    if not 1 <= len(anchors_BD) <= len(candidates_ND):
        raise ConfigurationError(
            f"info_nce: {len(anchors_BD)} anchors and {len(candidates_ND)} candidates; expected at least one anchor, "
            "and the positive of each at the start of the candidates"
        )
    if not 0 < scale < float("inf"):
        raise ConfigurationError(f"info_nce: scale must be positive and finite, got {scale}")
    check_similarity("info_nce", similarity)


def check_similarity(objective: str, similarity: str) -> None:
    """Raise ConfigurationError, which begins with ``objective``, if a similarity is unknown."""
    if similarity not in ("cosine", "dot"):
        raise ConfigurationError(f"{objective}: similarity must be 'cosine' or 'dot', got {similarity!r}")
