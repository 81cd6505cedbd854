"""Search: queries -> candidates of both stages -> fused -> checked against the records -> hits.

Stages are fused here and not in the store, so that a hit keeps the score of each: every candidate of one stage is
scored by the other too. A chunk that its source's record does not list belongs to an unfinished or a replaced
version and is passed over. Where passing over and grouping leave too few, the search goes deeper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from twinvec.engines.base import FloatArray
from twinvec.errors import BadVectorError, ConfigurationError
from twinvec.filters import Filter
from twinvec.fusion import CANDIDATES, fuse
from twinvec.lexical import SparseVector
from twinvec.retrieval import Hit, Mode, check_limit
from twinvec.text import check_text, check_texts
from twinvec_qdrant.backends.base import Backend, Query, Scored
from twinvec_qdrant.backends.conditions import Condition, IdIs
from twinvec_qdrant.catalog import Catalog
from twinvec_qdrant.description import SpaceEncoder
from twinvec_qdrant.lexicon import Lexicon
from twinvec_qdrant.schema import SHOWN_FIELDS, Record, filter_conditions, user_payload

_FIELDS = ("source", "position")
_BLOCK = 32  # queries a request
_DEEPER = 4


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
class _Asked:
    """The vectors of one query, None for a stage left out, and how much each weighs when they are fused."""

    dense: FloatArray | None
    sparse: SparseVector | None
    weights: tuple[float, float] = (1.0, 1.0)

    @property
    def terms(self) -> int:
        """How many terms the query has."""
        return 0 if self.sparse is None else int(self.sparse[1].sum())


class Searcher:
    """Searches one collection.

    Args:
        backend: Where.
        lexicon: The collection's BM25 weights.
        vector: Name of the dense vector in force.
        whole: Whether documents were taken in whole, so that a chunk's id is its document's.
    """

    def __init__(self, backend: Backend, lexicon: Lexicon, vector: str, *, whole: bool) -> None:
        self._backend = backend
        self._catalog = Catalog(backend)
        self._lexicon = lexicon
        self._vector = vector
        self._whole = whole

    def search_texts(
        self,
        encoder: SpaceEncoder | None,
        queries: Sequence[str],
        limit: int,
        mode: Mode,
        filter: Filter | None,
        group: bool,
        weights: tuple[float, float],
    ) -> list[list[Hit]]:
        """Hits for each text; ``encoder`` is not needed for sparse search."""
        queries = check_texts(queries)
        check_limit(limit)
        if mode not in get_args(Mode):
            raise ConfigurationError(f"mode {mode!r} is not one of {', '.join(get_args(Mode))}")
        conditions = filter_conditions(filter)
        texts = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        for start in range(0, len(texts), _BLOCK):
            block = texts[start : start + _BLOCK]
            asked = self._asked(encoder if mode != "sparse" else None, block, weights, words=mode != "dense")
            candidates = self._search(asked, limit, conditions, group)
            found.update(zip(block, self._hits(candidates, group), strict=True))
        return [list(found.get(query, ())) for query in queries]

    def search_vector(
        self, vector_D: FloatArray, words: str | None, limit: int, filter: Filter | None, group: bool, exact: bool
    ) -> list[Hit]:
        """Hits for a vector, and for words beside it where there are any."""
        check_limit(limit)
        sparse = None if words is None else self._lexicon.queries([check_text(words, "words")])[0]
        asked = [_Asked(vector_D, sparse)]
        return self._hits(self._search(asked, limit, filter_conditions(filter), group, exact), group)[0]

    def diverse(
        self, vector_D: FloatArray, limit: int, candidates: int, diversity: float, filter: Filter | None
    ) -> list[Hit]:
        """Hits for a vector by maximal marginal relevance."""
        check_limit(limit)
        check_limit(candidates, "candidates")
        if not 0 <= diversity <= 1:
            raise ConfigurationError(f"diversity must be between 0 and 1, got {diversity!r}")
        depth = max(limit, candidates)
        found = self._search([_Asked(vector_D, None)], depth, filter_conditions(filter), group=False)[0]
        points = self._backend.retrieve([each.id for each in found], [], self._vector)
        found = [each for each in found if each.id in points]
        if not found:
            return []
        vectors_ND = np.stack([np.asarray(points[each.id].dense) for each in found])
        chosen = _marginal(np.array([each.score for each in found]), vectors_ND, limit, diversity)
        return self._hits([[found[index] for index in chosen]], group=False)[0]

    def _asked(
        self, encoder: SpaceEncoder | None, texts: Sequence[str], weights: tuple[float, float], *, words: bool
    ) -> list[_Asked]:
        dense: Sequence[FloatArray | None] = [None] * len(texts)
        if encoder is not None:
            vectors_QD = np.asarray(encoder.encode_query(list(texts)), dtype=np.float32)
            norms = np.linalg.norm(vectors_QD, axis=-1)
            if vectors_QD.shape != (len(texts), encoder.dim) or not np.isfinite(norms).all() or not norms.all():
                raise BadVectorError(
                    f"the encoder {encoder.name!r} gave for queries vectors of shape {vectors_QD.shape}, expected "
                    f"{(len(texts), encoder.dim)}, finite and not zero"
                )
            dense = list(vectors_QD)
        sparse: Sequence[SparseVector | None] = self._lexicon.queries(texts) if words else [None] * len(texts)
        return [_Asked(*each, weights) for each in zip(dense, sparse, strict=True)]

    def _search(
        self,
        asked: Sequence[_Asked],
        limit: int,
        conditions: tuple[Condition, ...],
        group: bool,
        exact: bool = False,
    ) -> list[list[Candidate]]:
        """For each query the best ``limit`` valid candidates, or all there are."""
        results: list[list[Candidate]] = [[] for _ in asked]
        group = group and not self._whole
        depth = max(limit, CANDIDATES)
        waiting = list(range(len(asked)))
        while waiting:
            block = [asked[index] for index in waiting]
            stages = self._stages(block, depth, conditions, exact)
            ordered = [_ordered(stage, each) for stage, each in zip(stages, block, strict=True)]
            records = self._records(ordered, limit, group)
            for index, candidates in zip(waiting, ordered, strict=True):
                results[index] = self._valid(candidates, records, limit, group)
            waiting = [
                index
                for index, stage in zip(waiting, stages, strict=True)
                if len(results[index]) < limit and any(len(found) >= depth for found in stage.values())
            ]
            depth *= _DEEPER
        return results

    def _stages(
        self, asked: Sequence[_Asked], depth: int, conditions: tuple[Condition, ...], exact: bool
    ) -> list[dict[str, dict[str, Scored]]]:
        """For each query the candidates of each stage, by id; those of the other stage follow its own."""
        tasks = [(index, stage, vector) for index, each in enumerate(asked) for stage, vector in _vectors(each)]
        queries = [Query(vector, depth, conditions, _FIELDS, exact, self._vector) for _, _, vector in tasks]
        stages: list[dict[str, dict[str, Scored]]] = [
            {stage: {} for stage in ("dense", "sparse") if getattr(each, stage) is not None} for each in asked
        ]
        if not tasks:
            return stages
        for (index, stage, _), found in zip(tasks, self._backend.search(queries), strict=True):
            stages[index][stage] = {each.id: each for each in found}
        missing = [
            (index, stage, Query(vector, len(others), (IdIs(tuple(others)),), _FIELDS, name=self._vector))
            for index, stage, vector in tasks
            if (others := _others(stages[index], stage))
        ]
        if missing:
            answers = self._backend.search([query for _, _, query in missing])
            for (index, stage, _), found in zip(missing, answers, strict=True):
                stages[index][stage].update((each.id, each) for each in found)
        return stages

    def _records(self, ordered: Sequence[Sequence[Candidate]], limit: int, group: bool) -> dict[str, Record]:
        """The records that the best candidates of all queries need."""
        wanted: dict[str, None] = {}
        for candidates in ordered:
            sources = dict.fromkeys(candidate.source for candidate in candidates)
            wanted.update(dict.fromkeys(list(sources)[: 2 * limit] if group else sources))
        return self._catalog.records(wanted)

    def _valid(
        self, candidates: Sequence[Candidate], records: dict[str, Record], limit: int, group: bool
    ) -> list[Candidate]:
        """The best candidates that their source's record lists; with ``group`` one a source."""
        kept: list[Candidate] = []
        taken: set[str] = set()
        listed: dict[str, frozenset[str]] = {}
        for candidate in candidates:
            source = candidate.source
            if group and source in taken:
                continue
            if source not in listed:
                record = records.get(source) or self._catalog.records([source]).get(source)
                listed[source] = frozenset(record.chunks) if record else frozenset()
            if candidate.id in listed[source]:
                kept.append(candidate)
                taken.add(source)
                if len(kept) == limit:
                    break
        return kept

    def _hits(self, found: Sequence[Sequence[Candidate]], group: bool) -> list[list[Hit]]:
        ids = list(dict.fromkeys(candidate.id for candidates in found for candidate in candidates))
        points = self._backend.retrieve(ids) if ids else {}
        named = group or self._whole
        return [
            [_hit(each, points[each.id].payload, named) for each in candidates if each.id in points]
            for candidates in found
        ]


def _vectors(asked: _Asked) -> Iterator[tuple[str, FloatArray | SparseVector]]:
    """The stages to ask for; a query without a known word has no sparse one."""
    if asked.dense is not None:
        yield "dense", asked.dense
    if asked.sparse is not None and len(asked.sparse[0]):
        yield "sparse", asked.sparse


def _others(stages: Mapping[str, Mapping[str, Scored]], stage: str) -> list[str]:
    """The candidates of the other stage that this one has not scored."""
    return [key for other, found in stages.items() if other != stage for key in found if key not in stages[stage]]


def _ordered(stages: Mapping[str, Mapping[str, Scored]], asked: _Asked) -> list[Candidate]:
    """The candidates of all stages for a query, best first; equal ones by source and position."""
    union: dict[str, Scored] = {key: each for found in stages.values() for key, each in found.items()}
    if not union:
        return []
    scores = {
        stage: np.array([found[key].score if key in found else 0.0 for key in union], dtype=np.float32)
        for stage, found in stages.items()
    }
    if len(scores) == 2:
        scores["fused"] = fuse(scores["dense"], scores["sparse"], weights=asked.weights, terms=asked.terms)
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
    return sorted(candidates, key=lambda each: (-round(each.score, 6), each.source, each.position))


def _marginal(relevance_N: Any, vectors_ND: FloatArray, limit: int, diversity: float) -> list[int]:
    """Maximal marginal relevance (Carbonell and Goldstein 1998): indices in the order they are chosen."""
    unit_ND = vectors_ND / np.linalg.norm(vectors_ND, axis=1, keepdims=True)
    closest_N = np.full(len(unit_ND), -np.inf)
    chosen: list[int] = []
    while len(chosen) < min(limit, len(unit_ND)):
        penalty_N = closest_N if chosen else np.zeros_like(closest_N)
        value_N = (1 - diversity) * relevance_N - diversity * penalty_N
        value_N[chosen] = -np.inf
        chosen.append(int(np.argmax(value_N)))
        closest_N = np.maximum(closest_N, unit_ND @ unit_ND[chosen[-1]])
    return chosen


def _hit(candidate: Candidate, payload: Mapping[str, Any], named_by_source: bool) -> Hit:
    source, position = candidate.source, candidate.position
    return Hit(
        source if named_by_source else f"{source}#{position}",
        payload["text"],
        candidate.score,
        dict(candidate.scores),
        {**{name: payload[name] for name in SHOWN_FIELDS if name in payload}, **user_payload(payload)},
    )
