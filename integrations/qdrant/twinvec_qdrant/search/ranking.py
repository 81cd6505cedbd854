"""Ranking by pure functions: fuses and sorts the candidates of all stages, or chooses candidates that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.fusion import fuse
from twinvec.retrieval.relevance import Calibration
from twinvec.retrieval.syntax import ParsedQuery
from twinvec_qdrant.stores.candidates import Found
from twinvec_qdrant.stores.points import Scored


class Candidate(NamedTuple):
    """A chunk that a search found.

    ``scores`` holds its score in every stage, and ``score`` is the fused score, or the score of the only stage.
    """

    id: str
    source: str
    position: int
    scores: dict[str, float]
    score: float


@dataclass(frozen=True, slots=True)
class QueryVectors:
    """The vectors of one query; None for a stage that the search does not use.

    ``asked`` is the dense vector before feedback moved it; None without feedback. ``condition`` holds the phrases that
    a text must have and the words that it must not have. ``telling`` says that every text that satisfies the condition
    has a term of the query. ``unknown`` says that the query consists mostly of words that the model does not know.
    ``code_share`` is the share of the query's terms that are numbers or codes. ``weight`` is the weight of the query's
    terms (``TermCounts.weight``).
    """

    dense: FloatArray | None
    sparse: SparseVector | None = None
    asked: FloatArray | None = None
    condition: ParsedQuery | None = None
    telling: bool = False
    unknown: bool = False
    code_share: float = 0.0
    weight: float = 0.0

    @property
    def terms(self) -> int:
        """Return the number of the query's terms, 0 without terms, else at least 1; terms of key words count less."""
        return 0 if self.sparse is None or not len(self.sparse[0]) else max(1, int(self.sparse[1].sum()))

    def by_stage(self) -> dict[str, FloatArray | SparseVector | None]:
        """Return the vector of each stage that the search uses; the sparse vector of a query without terms is None."""
        stages: dict[str, FloatArray | SparseVector | None] = {}
        if self.dense is not None:
            stages["dense"] = self.dense
        if self.sparse is not None:
            stages["sparse"] = self.sparse if len(self.sparse[0]) else None
        return stages


def rank(
    found: Found,
    query: QueryVectors,
    weights: tuple[float, float],
    before: Sequence[Candidate] = (),
    first: int = 0,
    calibration: Calibration | None = None,
) -> list[Candidate]:
    """Return the new candidates of all stages, best first; equal scores are ordered by source and position.

    ``before`` holds the candidates of smaller depths; its leading ``first`` ones were found at the first depth. The
    order must not depend on the depth of a search, so new candidates follow the earlier ones: no new score is better
    than the last score in ``before``. The means and deviations of the first depth standardise all scores.
    """
    points: Mapping[str, Scored] = {key: each for of_stage in found.values() for key, each in of_stage.items()}
    if not points:
        return []
    scores = {
        stage: np.array([of_stage[key].score if key in of_stage else 0.0 for key in points], dtype=np.float32)
        for stage, of_stage in found.items()
    }
    columns = [values.tolist() for values in scores.values()]
    if len(columns) == 2:
        both = [
            np.array([*(each.scores[stage] for each in before[:first]), *values], dtype=np.float32)
            for stage, values in scores.items()
        ]
        fused = fuse(
            *both,
            weights=weights,
            terms=query.terms,
            first=first or None,
            calibration=calibration,
            unknown=query.unknown,
            code_share=query.code_share,
        )
        final = fused[first:].tolist()
        columns.append([min(score, before[-1].score) for score in final] if before else final)
    else:
        (final,) = columns
    stages = (*scores, "fused")[: len(columns)]
    # scores are rounded, so that floating-point errors do not decide between equal chunks
    places = [
        (-round(score, 6), point.payload["source"], point.payload["position"])
        for point, score in zip(points.values(), final, strict=True)
    ]
    candidates = [
        Candidate(point.id, source, position, dict(zip(stages, row, strict=True)), row[-1])
        for point, (_, source, position), row in zip(points.values(), places, zip(*columns, strict=True), strict=True)
    ]
    return [candidates[row] for row in sorted(range(len(places)), key=places.__getitem__)]


def as_asked(candidate: Candidate, asked_D: FloatArray, vector_D: FloatArray) -> Candidate:
    """Return a candidate with the dense score of the original query, before feedback moved its vector.

    A moved query has higher cosines with all texts, so its score says less about a hit. The score of the moved query is
    kept as the score of the stage "feedback".
    """
    cosine = float(unit(asked_D) @ unit(vector_D))
    others = {stage: score for stage, score in candidate.scores.items() if stage != "dense"}
    return candidate._replace(scores={"dense": cosine, "feedback": candidate.scores["dense"], **others})


def mmr(relevance_N: Any, vectors_ND: FloatArray, limit: int, diversity: float) -> list[int]:
    """Return indices by maximal marginal relevance (Carbonell and Goldstein 1998), in the order they are chosen."""
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
