"""The pairs of a batch that must not count as negatives, found by 64-bit hashes of their normalised texts.

Paraphrases have different hashes; the ``false_negative_margin`` of the objective can exclude them.
Shapes: B rows, N candidates (the first B are the positives, in order), R rows and C columns of a tile.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from twinvec.errors import ConfigurationError
from twinvec.training.data.text_hash import text_hash


def text_hashes(texts: Iterable[str]) -> Tensor:
    """Return the ``text_hash`` of each text: (n,) int64."""
    return torch.tensor([text_hash(text) for text in texts], dtype=torch.int64)


class PairTexts:
    """The texts of a batch, given as int64 hashes; the candidates are the positives in order, then the hard negatives.

    Candidate j (j != i) is excluded for anchor i if its text equals anchor i, positive i, or the positive of another
    anchor with the same text as anchor i.
    """

    def __init__(self, anchors_B: Tensor, candidates_N: Tensor) -> None:
        if anchors_B.dim() != 1 or candidates_N.dim() != 1 or len(anchors_B) > len(candidates_N):
            raise ConfigurationError(
                f"expected hashes of shape (B,) and (N,) with N >= B, got {tuple(anchors_B.shape)} and "
                f"{tuple(candidates_N.shape)}"
            )
        rows, count = len(anchors_B), len(candidates_N)
        distinct, inverse, counts = torch.unique(
            torch.cat([candidates_N, anchors_B]), return_inverse=True, return_counts=True
        )
        self.candidates_N, self.anchors_B = inverse[:count], inverse[count:]  # each text as a number
        self._distinct = len(distinct)
        again = counts > 1
        self._repeated_N = again[self.candidates_N]  # whether the text of the candidate or of its anchor is repeated
        self._repeated_N[:rows] |= again[self.anchors_B]
        self._pairs_B = self._pair_numbers(self.anchors_B, self.candidates_N[:rows]).sort().values

    def tile(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor] | None:
        """Return a tile's excluded pairs as S column offsets and a mask (R, S); None if its columns repeat no text."""
        columns_S = self._repeated_N[columns].nonzero().squeeze(1)
        if not len(columns_S):
            return None
        whole_S = columns_S + columns.start
        anchors_R1, candidates_S = self.anchors_B[rows].unsqueeze(1), self.candidates_N[whole_S]
        asked_RS = self._pair_numbers(anchors_R1, candidates_S)
        places_RS = torch.searchsorted(self._pairs_B, asked_RS).clamp_(max=len(self._pairs_B) - 1)
        excluded_RS = (candidates_S == anchors_R1) | (self._pairs_B[places_RS] == asked_RS)
        own_R1 = torch.arange(rows.start, rows.stop, device=whole_S.device).unsqueeze(1)
        return columns_S, excluded_RS & (whole_S != own_R1)

    def _pair_numbers(self, anchors: Tensor, candidates: Tensor) -> Tensor:
        """Return one number for each pair of texts."""
        return anchors * self._distinct + candidates
