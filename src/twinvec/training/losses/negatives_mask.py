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

    Candidate j (j != i) is excluded for anchor i if its text is that of positive i or of anchor i, or if it is the
    positive of an anchor with the same text as anchor i.
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
        columns_S = self._repeated[columns].nonzero().squeeze(1)
        if not len(columns_S):
            return None
        whole_S = columns_S + columns.start
        candidates_S = self.candidates_N[whole_S]
        owners_S = self.anchors_B[whole_S.clamp(max=len(self.anchors_B) - 1)]  # of positives; the others do not count
        anchors_R1 = self.anchors_B[rows].unsqueeze(1)
        positives_R1 = self.candidates_N[rows].unsqueeze(1)
        excluded_RS = (candidates_S == positives_R1) | (candidates_S == anchors_R1)
        excluded_RS |= (owners_S == anchors_R1) & (whole_S < len(self.anchors_B))
        own_R1 = torch.arange(rows.start, rows.stop, device=whole_S.device).unsqueeze(1)
        return columns_S, excluded_RS & (whole_S != own_R1)

    @cached_property
    def _repeated(self) -> Tensor:
        """Mask of the candidates whose text, or whose anchor's text, occurs more than once in the batch."""
        _, inverse, counts = torch.unique(
            torch.cat([self.candidates_N, self.anchors_B]), return_inverse=True, return_counts=True
        )
        again = counts[inverse] > 1
        repeated_N: Tensor = again[: len(self.candidates_N)].clone()
        repeated_N[: len(self.anchors_B)] |= again[len(self.candidates_N) :]
        return repeated_N
