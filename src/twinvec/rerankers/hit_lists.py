"""What both rerankers do with lists of hits: check them, and put them in the order of new scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from twinvec.errors import InputError
from twinvec.retrieval.base import Hit, check_limit
from twinvec.text import check_text, check_texts


def checked_hit_lists(
    queries: Sequence[str], hits_lists: Sequence[Sequence[Hit]], limit: int | None
) -> tuple[list[str], list[list[Hit]]]:
    if limit is not None:
        check_limit(limit)
    checked = check_texts(queries)
    lists = [as_list(hits, f"hits of query {row}") for row, hits in enumerate(as_list(hits_lists, "lists of hits"))]
    if len(lists) != len(checked):
        raise InputError(f"{len(checked)} queries, but {len(lists)} lists of hits")
    for row, hits in enumerate(lists):
        for hit in hits:
            if not isinstance(hit, Hit):
                raise InputError(f"query {row}: expected hits, got {type(hit).__name__}")
            check_text(hit.text, f"query {row}, hit {hit.id!r}")
            if not np.isfinite(hit.score):
                raise InputError(f"query {row}, hit {hit.id!r}: its score is {hit.score}")
    return checked, lists


def reordered(
    hits: Sequence[Hit], stage: str, scores: Iterable[float], final: npt.NDArray[np.floating], limit: int | None
) -> list[Hit]:
    """New hits by ``final``, best first; equal ones in the order they came in."""
    new = [
        replace(hit, score=float(score), scores={**hit.scores, stage: float(of_stage)})
        for hit, of_stage, score in zip(hits, scores, final, strict=True)
    ]
    return [new[index] for index in np.argsort(-final, kind="stable")[:limit]]


def standardized(scores: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    spread = scores.std() if len(scores) else 0.0
    return (scores - scores.mean()) / spread if spread > 0 else np.zeros(len(scores))


Item = TypeVar("Item")


def as_list(values: Iterable[Item], what: str) -> list[Item]:
    if not isinstance(values, Iterable):
        raise InputError(f"{what}: expected a list, got {type(values).__name__}")
    return list(values)
