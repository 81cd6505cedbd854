"""Rows for cross-encoders: pairs of texts with a label between 0 and 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinvec.errors import DocumentError
from twinvec.training.data.rows import Rows

_AT_ONCE = 1000


class PairRows:
    """The pairs of a dataset; a row of "binary" becomes a pair with label 1, and one with label 0 for each negative."""

    def __init__(self, rows: Rows) -> None:
        self.name = rows.name
        self.path = rows.path
        self._rows = rows
        counts = np.ones(len(rows), dtype=np.int64)
        if "negatives" in rows.roles:
            for start in range(0, len(rows), _AT_ONCE):
                part = rows.rows(range(start, min(start + _AT_ONCE, len(rows))))
                counts[start : start + len(part)] += [len(row["negatives"]) for row in part]
        self._ends = counts.cumsum()
        if "anchor" in rows.roles and len(self) == len(rows):
            raise DocumentError(
                f"{rows.path}: has no negatives, and positives alone teach nothing; 'twinvec mine' finds negatives"
            )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def rows(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the pairs at ``indices``, with ``sentence1``, ``sentence2`` and ``label``."""
        owners = np.searchsorted(self._ends, indices, side="right")
        parts = np.asarray(indices) - np.concatenate([[0], self._ends])[owners]
        rows = self._rows.rows(owners.tolist())
        return [_pair(row, part) for row, part in zip(rows, parts.tolist(), strict=True)]


def _pair(row: dict[str, Any], part: int) -> dict[str, Any]:
    if "anchor" not in row:
        return {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": row["score"]}
    text = row["positive"] if part == 0 else row["negatives"][part - 1]
    return {"sentence1": row["anchor"], "sentence2": text, "label": float(part == 0)}
