"""Search: finds the candidates of both stages, fuses their scores, checks the records, and returns hits.

The stages are fused here and not in the store, so that a hit keeps the score of each stage: every candidate of one
stage is scored by the other stage too. A chunk that its document's record does not list belongs to an unfinished or
replaced version, and is left out. If too few candidates remain, the search asks for more candidates (a greater depth).
The depth grows by the same steps for every page, and the results of one step stay before the results of the next step.
Pages therefore neither repeat nor miss a hit.

A search makes two requests to a store: one for the candidates, and one for the payloads and records of the best
candidates (``fetching``). It makes more requests only if it needs a greater depth, or drops many chunks that no record
lists. Feedback adds a search for the first hits and their vectors, with two more requests.

One request is enough if all found chunks are known to be committed (``ended``). The hits are the same.

- A search of one stage then asks for few candidates, with their payloads. Candidates with the same score as the last
  one are left to the next step, because other candidates with this score may come before them.
- A hybrid search asks for as many candidates as always. The same request reads the payloads of the best candidates of
  each stage, which nearly always include the best candidates after the fusion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from twinvec.errors import ConfigurationError, FilterError
from twinvec.retrieval.base import Hit, relevant
from twinvec.retrieval.documents import HiddenKeys
from twinvec.retrieval.feedback import moved
from twinvec.retrieval.fusion import CANDIDATES
from twinvec.retrieval.relevance import MANY, Calibration, relevance, share_learnt
from twinvec_qdrant.records.description import Description, Generation
from twinvec_qdrant.records.schema import CHUNKS, SHOWN_FIELDS, hidden_keys, model_id, user_payload
from twinvec_qdrant.search.ended import EndedCommits
from twinvec_qdrant.search.fetching import Fetched, needed_by, own_chunks
from twinvec_qdrant.search.ranking import Candidate, QueryVectors, as_asked, mmr, rank
from twinvec_qdrant.search.request import SearchRequest
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.candidates import Found, Search
from twinvec_qdrant.stores.points import Query
from twinvec_qdrant.stores.steps import Steps

_CHUNKS_OF_A_HIT = 3  # about this many of the best candidates belong to the same document
_DEEPER = 4  # each step of a search asks for this many times the candidates of the step before


@dataclass(slots=True)
class _Progress:
    """The state of the search for one query.

    ``found`` holds the new candidates of the current depth, and ``ranked`` all candidates so far, best first. ``first``
    is the number of candidates at the first depth. ``valid`` holds the best committed candidates. ``more`` says that a
    stage may have more candidates.
    """

    query: QueryVectors
    found: Found = field(default_factory=dict)
    ranked: list[Candidate] = field(default_factory=list)
    first: int = 0
    more: bool = True
    valid: list[Candidate] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The hits of each query, and the present model that the store names; None if the store names no model."""

    hits: list[list[Hit]]
    model: NamedModel | None


@dataclass(frozen=True, slots=True)
class NamedModel:
    """The present model as the store's point ``model`` names it: the name of its vectors, and its space.

    ``space`` is None if an older version of twinvec wrote the point.
    """

    vector: str
    space: str | None

    def is_of(self, model: Generation) -> bool:
        """Return whether the named vectors are those of ``model``."""
        return self.vector == model.vector and self.space in (None, model.space)


class Searcher:
    """Searches one collection by the vectors of one model.

    ``ended`` holds the commits that are known to have ended; all searches of an open collection share it. ``chunks``
    returns the last known number of chunks, or None.
    """

    def __init__(
        self, backend: Backend, description: Description, ended: EndedCommits, chunks: Callable[[], int | None]
    ) -> None:
        self._backend = backend
        self._vector = description.vector
        self._whole = not description.chunking.enabled  # whether documents are stored uncut
        # in an adopted collection, LangChain or LlamaIndex may add points that have no record yet
        self._only = (CHUNKS,) if description.layout is not None else ()
        self._ended = ended if description.layout is None else None
        self._scale = description.scale
        self._description = description
        self._chunks = chunks

    def search(self, queries: Sequence[QueryVectors], request: SearchRequest) -> Steps[Outcome]:
        """Return the hits for each query."""
        self.check_tenant(request)
        with self._backend.undisturbed():
            if request.moves:
                queries = yield from self._moved(queries, request.of_first_hits())
            fetched = Fetched(self._backend, self._vector if request.moves else None, self._ended)
            searches, model = yield from self._candidates(queries, request, fetched)
            found = [search.valid[request.offset :] for search in searches]
            if request.moves:
                found = yield from self._as_asked(queries, found, fetched)
            hits = yield from self._hits(list(zip(queries, found, strict=True)), fetched, request, searches)
            return Outcome(hits, model)

    def _moved(self, queries: Sequence[QueryVectors], request: SearchRequest) -> Steps[list[QueryVectors]]:
        """Return the queries, with dense vectors moved towards the vectors of the hits of ``request``."""
        fetched = Fetched(self._backend, self._vector, self._ended)
        searches, _ = yield from self._candidates(queries, request, fetched)
        vectors = yield from fetched.vectors(each for search in searches for each in search.valid)
        nearer = []
        for query, search in zip(queries, searches, strict=True):
            assert query.dense is not None
            found = [vectors[each.id] for each in search.valid if each.id in vectors]
            found_KD = np.stack(found) if found else np.empty((0, len(query.dense)), dtype=np.float32)
            nearer.append(replace(query, dense=moved(query.dense, found_KD), asked=query.dense))
        return nearer

    def _as_asked(
        self, queries: Sequence[QueryVectors], found: Sequence[Sequence[Candidate]], fetched: Fetched
    ) -> Steps[list[list[Candidate]]]:
        """Return the candidates with the dense scores of the original queries, before feedback moved them."""
        vectors = yield from fetched.vectors(each for candidates in found for each in candidates)
        scored: list[list[Candidate]] = []
        for query, candidates in zip(queries, found, strict=True):
            asked = query.asked
            assert asked is not None
            scored.append(
                [as_asked(each, asked, vectors[each.id]) if each.id in vectors else each for each in candidates]
            )
        return scored

    def diverse(self, query: QueryVectors, request: SearchRequest, limit: int, diversity: float) -> Steps[Outcome]:
        """Return ``limit`` of the request's hits, chosen by maximal marginal relevance."""
        self.check_tenant(request)
        with self._backend.undisturbed():
            fetched = Fetched(self._backend, self._vector, self._ended)
            (search,), model = yield from self._candidates([query], request, fetched)
            vectors = yield from fetched.vectors(search.valid)
            found = [each for each in search.valid if each.id in vectors]
            if not found:
                return Outcome([[]], model)
            vectors_ND = np.stack([vectors[each.id] for each in found])
            chosen = mmr(np.array([each.score for each in found]), vectors_ND, limit, diversity)
            hits = yield from self._hits([(query, [found[index] for index in chosen])], fetched, request, [search])
            return Outcome(hits, model)

    def check_tenant(self, request: SearchRequest) -> None:
        """Refuse a request whose filter names no tenant, in a collection of many tenants."""
        key = self._description.tenant_key
        if key is not None and key not in request.named:
            raise FilterError(
                f"the collection has many tenants, and the filter names none; add filter={{{key!r}: ...}} "
                f"(--filter {key}=...)"
            )

    def _candidates(
        self, queries: Sequence[QueryVectors], request: SearchRequest, fetched: Fetched
    ) -> Steps[tuple[list[_Progress], NamedModel | None]]:
        """Find the valid candidates of each query, as many as requested; return the present model too."""
        searches = [_Progress(query) for query in queries]
        group = request.group and not self._whole
        first_depth = self._first_depth(queries, request, group=group) if fetched.expects_no_records else 0
        are_single = all(len(query.by_stage()) < 2 for query in queries)
        depth, waiting, model = first_depth if first_depth and are_single else CANDIDATES, searches, None
        while waiting:
            best = 0
            if first_depth and depth <= CANDIDATES and fetched.expects_no_records:
                best = depth if are_single else first_depth
            model = yield from self._find(waiting, request, depth, fetched, best=best)
            for search in waiting:
                search.ranked += rank(
                    search.found, search.query, request.weights, search.ranked, search.first, self._scale
                )
                search.found = {}  # frees memory before the next request
                search.first = search.first or len(search.ranked)
                search.more &= not search.query.telling or _has_more_words(search.ranked, depth)
                if search.more and depth < CANDIDATES:
                    search.ranked = _without_last_score(search.ranked)
            enough = [each for each in waiting if not each.more or _most(each.ranked, group=group) >= request.depth]
            conditions = [search.query.condition for search in enough]
            valid = yield from fetched.valid([each.ranked for each in enough], conditions, request, group=group)
            for search, candidates in zip(enough, valid, strict=True):
                search.valid = candidates
            waiting = [each for each in waiting if each.more and len(each.valid) < request.depth]
            depth = CANDIDATES if depth < CANDIDATES else depth * _DEEPER
        return searches, model

    def _first_depth(self, queries: Sequence[QueryVectors], request: SearchRequest, *, group: bool) -> int:
        """Return how many candidates per stage to read with their payloads; 0 if the search needs more requests."""
        if request.depth > CANDIDATES or any(query.condition is not None for query in queries):
            return 0
        factor = _CHUNKS_OF_A_HIT if group else max(len(query.by_stage()) for query in queries)
        return min(CANDIDATES, needed_by(request) * factor)

    def _find(
        self, searches: Sequence[_Progress], request: SearchRequest, depth: int, fetched: Fetched, *, best: int
    ) -> Steps[NamedModel | None]:
        """Request candidates, and set ``found`` and ``more`` of each search; every stage scores all candidates.

        The best ``best`` candidates of each stage come with their payloads. Return the present model.
        """
        conditions = (*self._only, *request.conditions)
        whole = best >= depth
        fields = None if whole else fetched.fields
        index = self._description.index if depth >= CANDIDATES else _as_deep(self._description.index, depth)

        def query(vector: Any) -> Query:
            return Query(vector, depth, conditions, fields, request.exact, self._vector, index)

        asked = [
            Search(
                {stage: query(vector) for stage, vector in search.query.by_stage().items() if vector is not None},
                frozenset(each.id for each in search.ranked),
            )
            for search in searches
        ]
        of_best = [
            replace(each, limit=best, fields=None, index=_as_deep(self._description.index, best))
            for search in (asked if best and not whole else ())
            for each in search.stages.values()
        ]
        candidates = yield from self._backend.candidates(asked, model_id(), fetched.along(request, of_best))
        candidates.found = [{stage: own_chunks(each) for stage, each in found.items()} for found in candidates.found]
        fetched.take(candidates, whole=whole)
        for search, found, more in zip(searches, candidates.found, candidates.more, strict=True):
            search.found = {stage: found.get(stage, {}) for stage in search.query.by_stage()}
            search.more = more
        named = candidates.notice
        return None if named is None else NamedModel(named["vector"], named.get("space"))

    def _judged_by(self, searches: Sequence[_Progress]) -> Calibration | None:
        """Return the calibration for relevance; an unknown or outdated number of chunks counts as large."""
        known = self._chunks()
        if known is None or any(len(each.ranked) > known for each in searches):
            known = MANY
        return self._description.judged_by(known)

    def _hits(
        self,
        found: Sequence[tuple[QueryVectors, Sequence[Candidate]]],
        fetched: Fetched,
        request: SearchRequest,
        searches: Sequence[_Progress],
    ) -> Steps[list[list[Hit]]]:
        """Return the hits of each query, without hits below the request's ``min_relevance``."""
        yield from fetched.fetch(candidate.id for _, candidates in found for candidate in candidates)
        points = fetched.points
        named_by_source = request.group or self._whole
        judged_by = self._judged_by(searches)
        learnt = share_learnt(judged_by, self._description.known())
        hits = []
        for query, candidates in found:
            judge = partial(
                relevance,
                weight=query.weight,
                calibration=judged_by,
                terms=query.terms,
                unknown=query.unknown,
                code_share=query.code_share,
                learnt=learnt,
            )
            judged = ((each, judge(each.scores)) for each in candidates if each.id in points)
            of_query = [_hit(each, points[each.id].payload, named_by_source, found) for each, found in judged]
            hits.append(relevant(of_query, request.min_relevance))
        return hits


def _has_more_words(ranked: Sequence[Candidate], depth: int) -> bool:
    """Return whether a greater depth may find more chunks that have a term of the query."""
    return sum(each.scores.get("sparse", 1.0) > 0 for each in ranked) >= depth


def _without_last_score(ranked: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates with a better score than the last candidate; scores are compared after rounding."""
    last = round(ranked[-1].score, 6) if ranked else 0.0
    return [each for each in ranked if round(each.score, 6) > last]


def _most(ranked: Sequence[Candidate], *, group: bool) -> int:
    """Return how many hits the candidates give if all are valid: one for each document with ``group``, else all."""
    return len({each.source for each in ranked}) if group else len(ranked)


def _as_deep(index: IndexSettings, depth: int) -> IndexSettings:
    """Return settings with which the index compares as many vectors for ``depth`` results as for ``CANDIDATES``."""
    factor = min(1000.0, index.oversampling_factor * CANDIDATES / depth)
    return replace(index, ef=max(index.ef or index.ef_construct, CANDIDATES), oversampling=factor)


def check_diversity(diversity: float) -> None:
    """Raise ``ConfigurationError`` unless ``diversity`` is a number from 0 to 1."""
    if not isinstance(diversity, Real) or not 0 <= diversity <= 1:
        raise ConfigurationError(f"diversity must be between 0 and 1, got {diversity!r}")


def _hit(candidate: Candidate, payload: Mapping[str, Any], named_by_source: bool, relevance: float | None) -> Hit:
    given = user_payload(payload)
    own = [name for name in SHOWN_FIELDS if name in payload and name not in given]
    hidden = hidden_keys(payload) or HiddenKeys()
    return Hit(
        candidate.source if named_by_source else f"{candidate.source}#{candidate.position}",
        payload["text"],
        candidate.score,
        dict(candidate.scores),
        {**{name: payload[name] for name in SHOWN_FIELDS if name in payload}, **given},
        relevance=relevance,
        hidden=HiddenKeys((*own, *hidden.llm), (*own, *hidden.embed)),
    )
