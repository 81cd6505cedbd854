"""Search: queries -> candidates of both stages -> fused -> checked against the records -> hits.

Stages are fused here and not in the store, so that a hit keeps the score of each: every candidate of one stage is
scored by the other too. A chunk that its source's record does not list belongs to an unfinished or a replaced
version and is passed over. Where passing over, grouping and earlier pages leave too few, the search goes deeper, by the
same steps for every page: what a step finds stays before what the next ones add, so that pages neither repeat nor miss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, without_direction
from twinvec.errors import BadVectorError, ConfigurationError, FilterError
from twinvec.retrieval.base import MAX_LIMIT, Hit, Mode, SpaceEncoder, check_limit
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.filters import Filter, parse_filter
from twinvec.retrieval.fusion import CANDIDATES
from twinvec.support.checks import check_choice
from twinvec.text import check_text, check_texts
from twinvec_qdrant.records.bm25_weights import Lexicon
from twinvec_qdrant.records.catalog import Catalog
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.schema import SHOWN_FIELDS, Record, filter_conditions, user_payload
from twinvec_qdrant.search.ranking import Candidate, QueryVectors, marginal, others, rank, vectors
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import Condition, IdIs
from twinvec_qdrant.stores.points import Query, Scored

_FIELDS = ("source", "position")
_BLOCK = 32  # queries a request
_DEEPER = 4


class Searcher:
    """Searches one collection.

    Args:
        backend: Where.
        lexicon: The collection's BM25 weights.
        description: The collection's.
    """

    def __init__(self, backend: Backend, lexicon: Lexicon, description: Description) -> None:
        self._backend = backend
        self._catalog = Catalog(backend)
        self._lexicon = lexicon
        self._vector = description.vector
        self._whole = not description.chunking.enabled  # a chunk's id is its document's
        self._index = description.index
        self._tenant_key = description.tenant_key

    def search_texts(
        self,
        encoder: SpaceEncoder | None,
        queries: Sequence[str],
        limit: int,
        mode: Mode,
        filter: Filter | None,
        group: bool,
        offset: int,
        weights: tuple[float, float],
    ) -> list[list[Hit]]:
        """Hits for each text; ``encoder`` is not needed for sparse search."""
        queries = check_texts(queries)
        check_limit(limit)
        _check_offset(offset)
        check_choice(mode, Mode, "mode")
        conditions = self._conditions(filter)
        texts = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        for start in range(0, len(texts), _BLOCK):
            block = texts[start : start + _BLOCK]
            asked = self._asked(encoder if mode != "sparse" else None, block, weights, words=mode != "dense")
            candidates = self._search(asked, offset + limit, conditions, group)
            found.update(zip(block, self._hits([each[offset:] for each in candidates], group), strict=True))
        return [list(found.get(query, ())) for query in queries]

    def search_vector(
        self,
        vector_D: FloatArray,
        words: str | None,
        limit: int,
        filter: Filter | None,
        group: bool,
        offset: int,
        exact: bool,
    ) -> list[Hit]:
        """Hits for a vector, and for words beside it where there are any."""
        check_limit(limit)
        _check_offset(offset)
        sparse = None if words is None else self._lexicon.queries([check_text(words, "words")])[0]
        asked = [QueryVectors(vector_D, sparse)]
        (found,) = self._search(asked, offset + limit, self._conditions(filter), group, exact)
        return self._hits([found[offset:]], group)[0]

    def diverse(
        self, vector_D: FloatArray, limit: int, candidates: int, diversity: float, filter: Filter | None
    ) -> list[Hit]:
        """Hits for a vector by maximal marginal relevance."""
        check_limit(limit)
        check_limit(candidates, "candidates")
        if not isinstance(diversity, Real) or not 0 <= diversity <= 1:
            raise ConfigurationError(f"diversity must be between 0 and 1, got {diversity!r}")
        depth = max(limit, candidates)
        found = self._search([QueryVectors(vector_D, None)], depth, self._conditions(filter), group=False)[0]
        points = self._backend.retrieve([each.id for each in found], [], self._vector)
        found = [each for each in found if each.id in points]
        if not found:
            return []
        vectors_ND = np.stack([np.asarray(points[each.id].dense) for each in found])
        chosen = marginal(np.array([each.score for each in found]), vectors_ND, limit, diversity)
        return self._hits([[found[index] for index in chosen]], group=False)[0]

    def _conditions(self, filter: Filter | None) -> tuple[Condition, ...]:
        """The filter as conditions; of a collection of many tenants it has to say whose documents are meant."""
        conditions = filter_conditions(filter)
        key = self._tenant_key
        if key is not None and not any(each.key == key and each.any_of for each in parse_filter(filter)):
            raise FilterError(
                f"{self._backend.location}: holds the documents of many tenants: name one in the filter, "
                f"filter={{{key!r}: ...}}, --filter {key}=..."
            )
        return conditions

    def _query(
        self, vector: FloatArray | SparseVector, limit: int, conditions: tuple[Condition, ...], exact: bool = False
    ) -> Query:
        return Query(vector, limit, conditions, _FIELDS, exact, self._vector, self._index)

    def _asked(
        self, encoder: SpaceEncoder | None, texts: Sequence[str], weights: tuple[float, float], *, words: bool
    ) -> list[QueryVectors]:
        dense: Sequence[FloatArray | None] = [None] * len(texts)
        if encoder is not None:
            vectors_QD = np.asarray(encoder.encode_query(list(texts)), dtype=np.float32)
            if vectors_QD.shape != (len(texts), encoder.dim) or without_direction(vectors_QD).size:
                raise BadVectorError(
                    f"the encoder {encoder.name!r} gave for queries vectors of shape {vectors_QD.shape}, expected "
                    f"{(len(texts), encoder.dim)}, finite and not zero"
                )
            dense = list(vectors_QD)
        sparse: Sequence[SparseVector | None] = self._lexicon.queries(texts) if words else [None] * len(texts)
        return [QueryVectors(*each, weights) for each in zip(dense, sparse, strict=True)]

    def _search(
        self,
        asked: Sequence[QueryVectors],
        limit: int,
        conditions: tuple[Condition, ...],
        group: bool,
        exact: bool = False,
    ) -> list[list[Candidate]]:
        """For each query the best ``limit`` valid candidates, or all there are."""
        results: list[list[Candidate]] = [[] for _ in asked]
        ordered: list[list[Candidate]] = [[] for _ in asked]
        first = [0] * len(asked)
        group = group and not self._whole
        depth, waiting = CANDIDATES, list(range(len(asked)))
        while waiting:
            known = [{each.id for each in ordered[index]} for index in waiting]
            found = self._stages([asked[index] for index in waiting], known, depth, conditions, exact)
            deeper = {index for index, (_, more) in zip(waiting, found, strict=True) if more}
            for index, (stages, _) in zip(waiting, found, strict=True):
                ordered[index] += rank(stages, asked[index], ordered[index], first[index])
                first[index] = first[index] or len(ordered[index])
            enough = [index for index in waiting if index not in deeper or len(ordered[index]) >= limit]
            records = self._records([ordered[index] for index in enough], limit)
            for index in enough:
                results[index] = self._valid(ordered[index], records, limit, group)
            waiting = [index for index in waiting if index in deeper and len(results[index]) < limit]
            depth *= _DEEPER
        return results

    def _stages(
        self,
        asked: Sequence[QueryVectors],
        known: Sequence[set[str]],
        depth: int,
        conditions: tuple[Condition, ...],
        exact: bool,
    ) -> list[tuple[dict[str, dict[str, Scored]], bool]]:
        """For each query the candidates of each stage, by id, without those known, and whether there may be more.

        Those of the other stage follow its own.
        """
        tasks = [(index, stage, vector) for index, each in enumerate(asked) for stage, vector in vectors(each)]
        queries = [self._query(vector, depth, conditions, exact) for _, _, vector in tasks]
        stages: list[dict[str, dict[str, Scored]]] = [
            {stage: {} for stage in ("dense", "sparse") if getattr(each, stage) is not None} for each in asked
        ]
        more = [False] * len(asked)
        for (index, stage, _), found in zip(tasks, self._backend.search(queries) if queries else (), strict=True):
            more[index] |= len(found) >= depth
            stages[index][stage] = {each.id: each for each in found if each.id not in known[index]}
        missing = [
            (index, stage, self._query(vector, len(unscored), (IdIs(tuple(unscored)),), exact=True))
            for index, stage, vector in tasks
            if (unscored := others(stages[index], stage))
        ]
        if missing:
            answers = self._backend.search([query for _, _, query in missing])
            for (index, stage, _), found in zip(missing, answers, strict=True):
                stages[index][stage].update((each.id, each) for each in found)
        return list(zip(stages, more, strict=True))

    def _records(self, ordered: Sequence[Sequence[Candidate]], limit: int) -> dict[str, Record]:
        """The records that the best candidates of all queries need, with some to spare."""
        wanted: dict[str, None] = {}
        for candidates in ordered:
            sources = dict.fromkeys(candidate.source for candidate in candidates)
            wanted.update(dict.fromkeys(list(sources)[: 2 * limit]))
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


def _hit(candidate: Candidate, payload: Mapping[str, Any], named_by_source: bool) -> Hit:
    source, position = candidate.source, candidate.position
    return Hit(
        source if named_by_source else f"{source}#{position}",
        payload["text"],
        candidate.score,
        dict(candidate.scores),
        {**{name: payload[name] for name in SHOWN_FIELDS if name in payload}, **user_payload(payload)},
    )


def _check_offset(offset: int) -> None:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset <= MAX_LIMIT:
        raise ConfigurationError(f"offset must be an integer from 0 to {MAX_LIMIT:,}, got {offset!r}")
