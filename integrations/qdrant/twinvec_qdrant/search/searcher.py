"""Search: queries -> candidates of both stages -> fused -> checked against the records -> hits.

Stages are fused here and not in the store, so that a hit keeps the score of each: every candidate of one stage is
scored by the other too. A chunk that its source's record does not list belongs to an unfinished or replaced version and
is left out. If too few candidates remain, the search goes deeper, by the same steps for every page: the results of one
step stay before those of the next, so that pages neither repeat nor miss a hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import ConfigurationError, FilterError
from twinvec.retrieval.base import Hit, SpaceEncoder
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.fusion import CANDIDATES
from twinvec_qdrant.encoders import checked_vectors
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.schema import SHOWN_FIELDS, Record, user_payload
from twinvec_qdrant.search.ranking import Candidate, Found, QueryVectors, mmr, rank, unscored
from twinvec_qdrant.search.request import SearchRequest
from twinvec_qdrant.stores.conditions import IdIs, StoreCondition
from twinvec_qdrant.stores.points import Query, pages

_FIELDS = ("source", "position")
_BLOCK = 32  # queries per request to the store
_DEEPER = 4  # each step of a search asks for this many times the candidates of the step before


@dataclass(slots=True)
class _Progress:
    """How far the search for one query has come.

    ``found`` holds the new candidates of the current depth, ``ranked`` all so far, best first, ``first`` the number of
    the first depth, ``valid`` the best that their records list. ``more`` says that a stage may have more.
    """

    query: QueryVectors
    found: Found = field(default_factory=dict)
    ranked: list[Candidate] = field(default_factory=list)
    first: int = 0
    more: bool = True
    valid: list[Candidate] = field(default_factory=list)


class Searcher:
    """Searches one collection, for requests that have been checked."""

    def __init__(self, catalog: Catalog, bm25: BM25Weights, description: Description) -> None:
        self._catalog = catalog
        self._backend = catalog.backend
        self._bm25 = bm25
        self._vector = description.vector
        self._whole = not description.chunking.enabled  # a chunk's id is its document's
        self._index = description.index
        self._tenant_key = description.tenant_key

    def search_texts(
        self, encoder: SpaceEncoder | None, queries: Sequence[str], request: SearchRequest
    ) -> list[list[Hit]]:
        """Return the hits for each text; ``encoder`` is None for sparse search."""
        self._check_tenant(request)
        texts = [query for query in dict.fromkeys(queries) if query.strip()]
        hits: dict[str, list[Hit]] = {}
        for block in pages(texts, _BLOCK):
            found = self._candidates(self._query_vectors(encoder, block, request), request)
            hits.update(zip(block, self._hits(found, request), strict=True))
        return [list(hits.get(query, ())) for query in queries]

    def search_vector(self, vector_D: FloatArray, words: str | None, request: SearchRequest) -> list[Hit]:
        """Return the hits for a vector, fused with those for ``words`` if set."""
        self._check_tenant(request)
        sparse = None if words is None else self._bm25.queries([words])[0]
        return self._hits(self._candidates([QueryVectors(vector_D, sparse)], request), request)[0]

    def diverse(self, vector_D: FloatArray, request: SearchRequest, limit: int, diversity: float) -> list[Hit]:
        """Return ``limit`` of the request's hits, chosen by maximal marginal relevance."""
        if not isinstance(diversity, Real) or not 0 <= diversity <= 1:
            raise ConfigurationError(f"diversity must be between 0 and 1, got {diversity!r}")
        self._check_tenant(request)
        (found,) = self._candidates([QueryVectors(vector_D)], request)
        points = self._backend.retrieve([each.id for each in found], [], self._vector)
        found = [each for each in found if each.id in points]
        if not found:
            return []
        vectors_ND = np.stack([np.asarray(points[each.id].dense) for each in found])
        chosen = mmr(np.array([each.score for each in found]), vectors_ND, limit, diversity)
        return self._hits([[found[index] for index in chosen]], request)[0]

    def _check_tenant(self, request: SearchRequest) -> None:
        """Refuse a request whose filter names no tenant, in a collection of many tenants."""
        key = self._tenant_key
        if key is not None and key not in request.named:
            raise FilterError(
                f"{self._backend.location}: holds the documents of many tenants: name one in the filter, "
                f"filter={{{key!r}: ...}}, --filter {key}=..."
            )

    def _query_vectors(
        self, encoder: SpaceEncoder | None, texts: Sequence[str], request: SearchRequest
    ) -> list[QueryVectors]:
        dense: Sequence[FloatArray | None] = [None] * len(texts)
        sparse: Sequence[SparseVector | None] = [None] * len(texts)
        if encoder is not None:
            dense = list(checked_vectors(encoder, encoder.encode_query(list(texts)), texts))
        if request.mode != "dense":
            sparse = self._bm25.queries(texts)
        return [QueryVectors(*each) for each in zip(dense, sparse, strict=True)]

    def _candidates(self, queries: Sequence[QueryVectors], request: SearchRequest) -> list[list[Candidate]]:
        """Return for each query the valid candidates that the request needs, or all that exist."""
        searches = [_Progress(query) for query in queries]
        group = request.group and not self._whole
        depth, waiting = CANDIDATES, searches
        while waiting:
            self._find(waiting, request, depth)
            for search in waiting:
                search.ranked += rank(search.found, search.query, request.weights, search.ranked, search.first)
                search.first = search.first or len(search.ranked)
            enough = [each for each in waiting if not each.more or len(each.ranked) >= request.depth]
            records = self._records(enough, request.depth)
            for search in enough:
                search.valid = self._valid(search.ranked, records, request.depth, group)
            waiting = [each for each in waiting if each.more and len(each.valid) < request.depth]
            depth *= _DEEPER
        return [search.valid[request.offset :] for search in searches]

    def _find(self, searches: Sequence[_Progress], request: SearchRequest, depth: int) -> None:
        """Set the new candidates of each search, scored by every stage, and whether more may exist."""

        def query(vector: Any, limit: int, conditions: tuple[StoreCondition, ...], exact: bool) -> Query:
            return Query(vector, limit, conditions, _FIELDS, exact, self._vector, self._index)

        tasks = []
        for search in searches:
            stages = search.query.by_stage()
            search.found, search.more = {stage: {} for stage in stages}, False
            known = {each.id for each in search.ranked}
            tasks += [(search, known, stage, vector) for stage, vector in stages.items() if vector is not None]
        if not tasks:
            return
        answers = self._backend.search([query(task[-1], depth, request.conditions, request.exact) for task in tasks])
        for (search, known, stage, _), answer in zip(tasks, answers, strict=True):
            search.more |= len(answer) >= depth
            search.found[stage] = {each.id: each for each in answer if each.id not in known}
        missing = [
            (search, stage, query(vector, len(ids), (IdIs(ids),), exact=True))
            for search, _, stage, vector in tasks
            if (ids := unscored(search.found, stage))
        ]
        if missing:
            answers = self._backend.search([each for _, _, each in missing])
            for (search, stage, _), answer in zip(missing, answers, strict=True):
                search.found[stage].update((each.id, each) for each in answer)

    def _records(self, searches: Sequence[_Progress], limit: int) -> dict[str, Record]:
        """Return the records that the best candidates of all searches need, with some to spare."""
        sources = [list(dict.fromkeys(candidate.source for candidate in search.ranked)) for search in searches]
        return self._catalog.records(dict.fromkeys(source for each in sources for source in each[: 2 * limit]))

    def _valid(
        self, candidates: Sequence[Candidate], records: Mapping[str, Record], limit: int, group: bool
    ) -> list[Candidate]:
        """Return the best candidates that their source's record lists; with ``group`` one a source."""
        valid: list[Candidate] = []
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
                valid.append(candidate)
                taken.add(source)
                if len(valid) == limit:
                    break
        return valid

    def _hits(self, found: Sequence[Sequence[Candidate]], request: SearchRequest) -> list[list[Hit]]:
        ids = list(dict.fromkeys(candidate.id for candidates in found for candidate in candidates))
        points = self._backend.retrieve(ids) if ids else {}
        named_by_source = request.group or self._whole
        return [
            [_hit(each, points[each.id].payload, named_by_source) for each in candidates if each.id in points]
            for candidates in found
        ]


def _hit(candidate: Candidate, payload: Mapping[str, Any], named_by_source: bool) -> Hit:
    return Hit(
        candidate.source if named_by_source else f"{candidate.source}#{candidate.position}",
        payload["text"],
        candidate.score,
        dict(candidate.scores),
        {**{name: payload[name] for name in SHOWN_FIELDS if name in payload}, **user_payload(payload)},
    )
