"""Rows for cross-encoders: pairs of texts with a label between 0 and 1, from positives with negatives, or scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twinvec.errors import DocumentError
from twinvec.training.data import Rows


class PairRows:
    """The pairs of a dataset.

    Args:
        rows: Rows of the objective "binary", each of which becomes one pair with label 1 and as many with label 0
            as it has negatives, or of "graded", which stay as they are.

    Raises:
        DocumentError: a binary dataset without any negatives.
    """

    def __init__(self, rows: Rows) -> None:
        self.name = rows.name
        self.path = rows.path
        self._rows = rows
        counts = [len(row.get("negatives", ())) + 1 for row in rows.rows(range(len(rows)))]
        self._pairs = [(row, part) for row, count in enumerate(counts) for part in range(count)]
        if "anchor" in rows.roles and len(self._pairs) == len(rows):
            raise DocumentError(
                f"{rows.path}: has no negatives, and from positives alone nothing can be learned; "
                "'twinvec mine' finds some"
            )

    def __len__(self) -> int:
        return len(self._pairs)

    def rows(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Pairs: ``sentence1``, ``sentence2`` and ``label``."""
        wanted = [self._pairs[index] for index in indices]
        rows = self._rows.rows([row for row, _ in wanted])
        return [_pair(row, part) for row, (_, part) in zip(rows, wanted, strict=True)]


def _pair(row: dict[str, Any], part: int) -> dict[str, Any]:
    if "anchor" not in row:
        return {"sentence1": row["sentence1"], "sentence2": row["sentence2"], "label": row["score"]}
    text = row["positive"] if part == 0 else row["negatives"][part - 1]
    return {"sentence1": row["anchor"], "sentence2": text, "label": float(part == 0)}
