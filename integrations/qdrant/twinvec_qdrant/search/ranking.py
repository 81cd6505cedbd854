"""Ranking: the candidates of both stages -> fused and in order, or chosen for their difference.

Pure functions of what the store has found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.fusion import fuse
from twinvec_qdrant.stores.points import Scored


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that was found, and its score in every stage; the last stage decides."""

    id: str
    source: str
    position: int
    scores: dict[str, float]

    @property
    def score(self) -> float:
        """The score of the last stage."""
        return next(reversed(self.scores.values()))


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of one query, None for a stage left out, and how much each weighs when they are fused."""

    dense: FloatArray | None
    sparse: SparseVector | None
    weights: tuple[float, float] = (1.0, 1.0)

    @property
    def terms(self) -> int:
        """How many terms the query has."""
        return 0 if self.sparse is None else int(self.sparse[1].sum())


def vectors(asked: QueryVectors) -> Iterator[tuple[str, FloatArray | SparseVector]]:
    """The stages to ask for; a query without a known word has no sparse one."""
    if asked.dense is not None:
        yield "dense", asked.dense
    if asked.sparse is not None and len(asked.sparse[0]):
        yield "sparse", asked.sparse


def others(stages: Mapping[str, Mapping[str, Scored]], stage: str) -> list[str]:
    """The candidates of the other stage that this one has not scored."""
    return [key for other, found in stages.items() if other != stage for key in found if key not in stages[stage]]


def rank(
    stages: Mapping[str, Mapping[str, Scored]], asked: QueryVectors, before: Sequence[Candidate] = (), first: int = 0
) -> list[Candidate]:
    """The candidates of all stages for a query, best first; equal ones by source and position.

    They come behind those of ``before``, which lesser depth found, the ``first`` of them at the least. They are fused
    by the means and deviations of those first ones, and their score is no better than that of the last before them: the
    order of what is found does not depend on how deep a search goes.
    """
    union: dict[str, Scored] = {key: each for found in stages.values() for key, each in found.items()}
    if not union:
        return []
    scores = {
        stage: np.array([found[key].score if key in found else 0.0 for key in union], dtype=np.float32)
        for stage, found in stages.items()
    }
    if len(scores) == 2:
        both = [
            np.array([*(each.scores[stage] for each in before[:first]), *values], dtype=np.float32)
            for stage, values in scores.items()
        ]
        fused = fuse(*both, weights=asked.weights, terms=asked.terms, first=first or None)
        scores["fused"] = fused[first:]
    candidates = [
        Candidate(
            each.id,
            each.payload["source"],
            each.payload["position"],
            {stage: float(values[row]) for stage, values in scores.items()},
        )
        for row, each in enumerate(union.values())
    ]
    # rounded: the order in which products are summed must not decide between equal chunks
    candidates.sort(key=lambda each: (-round(each.score, 6), each.source, each.position))
    if before and "fused" in scores:
        for each in candidates:
            each.scores["fused"] = min(each.score, before[-1].score)
    return candidates


def marginal(relevance_N: Any, vectors_ND: FloatArray, limit: int, diversity: float) -> list[int]:
    """Maximal marginal relevance (Carbonell and Goldstein 1998): indices in the order they are chosen."""
    unit_ND = unit(vectors_ND)
    closest_N = np.full(len(unit_ND), -np.inf)
    chosen: list[int] = []
    while len(chosen) < min(limit, len(unit_ND)):
        penalty_N = closest_N if chosen else np.zeros_like(closest_N)
        value_N = (1 - diversity) * relevance_N - diversity * penalty_N
        value_N[chosen] = -np.inf
        chosen.append(int(np.argmax(value_N)))
        closest_N = np.maximum(closest_N, unit_ND @ unit_ND[chosen[-1]])
    return chosen
