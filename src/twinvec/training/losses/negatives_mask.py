"""Which pairs of a batch must not count as negatives, decided by 64-bit hashes of their normalised texts.

Near-copies in other words are left to the ``false_negative_margin`` of the objective.
Shapes: B rows, N candidates (the first B are the positives, in order), R rows and C columns of a tile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from twinvec.errors import ConfigurationError
from twinvec.training.data.text_hash import text_hash


def text_hashes(texts: Iterable[str]) -> Tensor:
    """``text_hash`` of each text: (n,) int64."""
    return torch.tensor([text_hash(text) for text in texts], dtype=torch.int64)


@dataclass(frozen=True)
class PairTexts:
    """The texts of a batch as int64 hashes; the candidates are the positives in order, then the hard negatives.

    Candidate j (j != i) is excluded for anchor i if its text is that of anchor i, of positive i, or of the positive of
    another anchor with the same text as anchor i.
    """

    anchors_B: Tensor
    candidates_N: Tensor

    def __post_init__(self) -> None:
        if self.anchors_B.dim() != 1 or self.candidates_N.dim() != 1 or len(self.anchors_B) > len(self.candidates_N):
            raise ConfigurationError(
                f"expected hashes of B anchors and of N >= B candidates, got {tuple(self.anchors_B.shape)} and "
                f"{tuple(self.candidates_N.shape)}"
            )

    def tile(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor] | None:
        """Return a tile's excluded pairs as S column offsets and a mask (R, S); None if its columns repeat no text."""
        texts = self._numbers
        columns_S = texts.repeated_N[columns].nonzero().squeeze(1)
        if not len(columns_S):
            return None
        whole_S = columns_S + columns.start
        anchors_R1, candidates_S = texts.anchors_B[rows].unsqueeze(1), texts.candidates_N[whole_S]
        excluded_RS = (candidates_S == anchors_R1) | texts.are_pairs(anchors_R1, candidates_S)
        own_R1 = torch.arange(rows.start, rows.stop, device=whole_S.device).unsqueeze(1)
        return columns_S, excluded_RS & (whole_S != own_R1)

    @cached_property
    def _numbers(self) -> _Numbers:
        count = len(self.candidates_N)
        distinct, inverse, counts = torch.unique(
            torch.cat([self.candidates_N, self.anchors_B]), return_inverse=True, return_counts=True
        )
        candidates_N, anchors_B = inverse[:count], inverse[count:]
        again = counts > 1
        repeated_N = again[candidates_N]
        repeated_N[: len(anchors_B)] |= again[anchors_B]
        pairs_B = anchors_B * len(distinct) + candidates_N[: len(anchors_B)]
        return _Numbers(anchors_B, candidates_N, repeated_N, pairs_B.sort().values, len(distinct))


@dataclass(frozen=True, slots=True)
class _Numbers:
    """The texts of a batch numbered below ``distinct``, and a sorted number for each pair of anchor and positive.

    ``repeated_N`` masks the candidates whose text, or whose anchor's text, occurs more than once in the batch.
    """

    anchors_B: Tensor
    candidates_N: Tensor
    repeated_N: Tensor
    pairs_B: Tensor
    distinct: int

    def are_pairs(self, anchors_R1: Tensor, candidates_S: Tensor) -> Tensor:
        """Mask (R, S) of the candidates whose text is a positive of the anchor's text."""
        asked_RS = anchors_R1 * self.distinct + candidates_S
        places_RS = torch.searchsorted(self.pairs_B, asked_RS).clamp_(max=len(self.pairs_B) - 1)
        return self.pairs_B[places_RS] == asked_RS
