"""Checks of the lists of hits that rerankers get, and their new order by new scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from numbers import Real
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from twinvec.errors import InputError
from twinvec.retrieval.base import Hit, check_hits, check_limit
from twinvec.text import check_texts, is_list


def checked_hit_lists(
    queries: Sequence[str], hits_lists: Sequence[Sequence[Hit]], limit: int | None
) -> tuple[list[str], list[list[Hit]]]:
    """Return queries and hits as lists, after a check of every text and score; errors name query and hit."""
    if limit is not None:
        check_limit(limit)
    checked = check_texts(queries, name="query", argument="queries")
    lists = [as_list(hits, f"hits of query {row}") for row, hits in enumerate(as_list(hits_lists, "lists of hits"))]
    if len(lists) != len(checked):
        raise InputError(
            f"expected one list of hits for each query, got {len(checked)} queries, but {len(lists)} lists of hits"
        )
    for row, hits in enumerate(lists):
        check_hits(hits, f"query {row}")
        for hit in hits:
            if not isinstance(hit.score, Real) or not math.isfinite(hit.score):
                raise InputError(f"query {row}, hit {hit.id!r}: its score is {hit.score}; expected a finite number")
    return checked, lists


def reordered(
    hits: Sequence[Hit],
    stage: str,
    scores: Iterable[float],
    final: npt.NDArray[np.floating],
    limit: int | None,
    relevance: Sequence[float | None],
) -> list[Hit]:
    """Return hits with new scores and relevance, best ``final`` score first; hits of equal scores keep their order."""
    new = [
        replace(hit, score=float(score), scores={**hit.scores, stage: float(of_stage)}, relevance=relevant)
        for hit, of_stage, score, relevant in zip(hits, scores, final, relevance, strict=True)
    ]
    return [new[index] for index in np.argsort(-final, kind="stable")[:limit]]


Item = TypeVar("Item")


def as_list(values: Iterable[Item], what: str) -> list[Item]:
    """Return the values as a list; raise InputError, which begins with ``what``, for a value that is not a list."""
    if not is_list(values):
        raise InputError(f"{what}: expected a list, got {type(values).__name__}")
    return list(values)
