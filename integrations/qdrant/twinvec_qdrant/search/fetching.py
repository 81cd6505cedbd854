"""Fetching: reads the payloads of the best candidates, and the records that decide which candidates are shown.

One request reads payloads and records for a few more candidates than needed, because candidates that no record lists
are dropped. The request is not needed if the candidates came with their payloads, and all shown candidates are known to
be committed (``ended``). For each query, the records decide either about all candidates or about none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from twinvec.arrays import FloatArray
from twinvec.retrieval.syntax import ParsedQuery
from twinvec_qdrant.records.schema import INTENTS, record_id
from twinvec_qdrant.search.ended import EndedCommits
from twinvec_qdrant.search.ranking import Candidate
from twinvec_qdrant.search.request import SearchRequest
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.candidates import Along, Candidates
from twinvec_qdrant.stores.points import Point, Query, Scored
from twinvec_qdrant.stores.steps import Steps

_OF_CHUNKS = frozenset({"source", "position"})
_SPARE = 4  # smallest number of extra candidates to read; chunks that no record lists are rare


class Fetched:
    """The records and chunks that one search has read.

    ``vector`` is the name of the dense vectors to read with the chunks; None to read no vectors. ``ended`` holds the
    commits that earlier searches saw end; None if the collection may hold chunks that twinvec has not committed.
    """

    def __init__(self, backend: Backend, vector: str | None, ended: EndedCommits | None) -> None:
        self.points: dict[str, Point] = {}
        """Chunks and records, by id."""
        self._backend = backend
        self._vector = vector
        self._asked: set[str] = set()
        self._listed: dict[str, frozenset[str]] = {}
        self._admitted: dict[tuple[str, ParsedQuery], bool] = {}
        self._ended = ended if ended is not None and backend.watches() else None
        self._begun = self._ended.now() if self._ended is not None else None
        self._no_intents = self._ended is not None
        self._sure: set[str] = set()  # chunks whose commits had ended when the search began

    def fetch(self, ids: Iterable[str]) -> Steps[None]:
        """Read the points with these ids, except for points that were requested before."""
        new = [key for key in dict.fromkeys(ids) if key not in self._asked]
        if new:
            self._asked.update(new)
            self.points.update((yield from self._backend.points(new, self._vector)))

    def along(self, request: SearchRequest, best: Sequence[Query]) -> Along:
        """Return which points the request for candidates also reads: the best chunks of each stage, and their records.

        ``best`` holds queries that find these chunks.
        """

        def ids(candidates: Candidates) -> Iterator[str]:
            best = (own_chunks(scored) for found in candidates.found for scored in found.values())
            points = {each.id: each for stage in best for each in islice(stage.values(), needed_by(request))}
            new = dict.fromkeys(
                each for key, point in points.items() for each in (record_id(point.payload["source"]), key)
            )
            return (key for key in new if key not in self._asked)

        return Along(ids, self._vector, None if self._ended is None else INTENTS, best)

    def vectors(self, candidates: Iterable[Candidate]) -> Steps[dict[str, FloatArray]]:
        """Read chunks, and return their dense vectors by id; chunks that are gone or have no vector are left out."""
        ids = [each.id for each in candidates]
        yield from self.fetch(ids)
        points = {key: self.points[key] for key in ids if key in self.points}
        return {key: point.dense for key, point in points.items() if point.dense is not None}

    @property
    def fields(self) -> tuple[str, ...]:
        """Payload fields to read with a candidate if its whole payload is not read."""
        return ("source", "position") if self._ended is None else ("source", "position", "revision")

    @property
    def expects_no_records(self) -> bool:
        """Return whether the search will probably need only the candidates and their payloads, and no records."""
        return self._no_intents and self._vector is None and self._begun is not None and self._begun.expects_no_records

    def take(self, candidates: Candidates, *, whole: bool) -> None:
        """Keep the points of an answer, and learn which commits have ended.

        ``whole`` says that the candidates have their whole payloads.
        """
        self.keep(candidates.read)
        if self._ended is None or self._begun is None:
            return
        self._no_intents &= candidates.none_watched
        met = {key: each for found in candidates.found for stage in found.values() for key, each in stage.items()}
        if whole:
            self.keep({key: Point(key, each.payload) for key, each in met.items()})
        revisions = {key: each.payload["revision"] for key, each in met.items() if "revision" in each.payload}
        self._sure.update(key for key, each in revisions.items() if self._ended.had_ended(each, self._begun))
        self._ended.learn(self._begun, list(revisions.values()), no_intents=candidates.none_watched)

    def keep(self, read: Mapping[str, Point | None]) -> None:
        """Keep points that have been read; None stands for a point that does not exist."""
        self._asked.update(read)
        self.points.update((key, point) for key, point in read.items() if point is not None)

    def valid(
        self,
        ranked: Sequence[Sequence[Candidate]],
        conditions: Sequence[ParsedQuery | None],
        request: SearchRequest,
        *,
        group: bool,
    ) -> Steps[list[list[Candidate]]]:
        """Return the best committed candidates of each search; with ``group``, one candidate per document.

        If a search has a condition, the texts of its candidates satisfy the condition.
        """
        needed = needed_by(request)
        depth = request.depth
        sure = [
            None if condition is not None else _Walk(candidates, self.surely_committed, self, depth, group, None)
            for candidates, condition in zip(ranked, conditions, strict=True)
        ]
        while True:
            valid = [
                known
                if known is not None and not known.is_blocked
                else _Walk(some, self.lists, self, depth, group, words)
                for known, some, words in zip(sure, ranked, conditions, strict=True)
            ]
            blocked = [each for each in valid if each.is_blocked]
            if not blocked:
                return [each.valid for each in valid]
            yield from self.fetch(key for each in blocked for key in each.wanted(needed, request.offset))

    def surely_committed(self, candidate: Candidate) -> bool | None:
        """Return True for a candidate that can be shown without its record; None for any other candidate."""
        return True if self._no_intents and candidate.id in self._sure and candidate.id in self.points else None

    def lists(self, candidate: Candidate) -> bool | None:
        """Return whether a candidate is listed by its document's record; None if the record has not been read."""
        source = candidate.source
        if source not in self._listed:
            if record_id(source) not in self._asked:
                return None
            record = self.points.get(record_id(source))
            self._listed[source] = frozenset(record.payload["chunks"]) if record else frozenset()
        return candidate.id in self._listed[source]

    def admitted(self, chunk: str, condition: ParsedQuery) -> bool | None:
        """Return whether a chunk satisfies the condition; None if the chunk has not been read."""
        if chunk not in self._asked:
            return None
        if (chunk, condition) not in self._admitted:
            own = self.points[chunk].payload if chunk in self.points else {}
            shown = [str(own.get(name, "")) for name in ("title", "heading", "text")]
            self._admitted[chunk, condition] = condition.admits(*shown)
        return self._admitted[chunk, condition]


def own_chunks(found: Mapping[str, Scored]) -> dict[str, Scored]:
    """Return the points of a search that are chunks of twinvec.

    Another program, such as LangChain's or LlamaIndex's Qdrant store, may add points with vectors of the same name.
    """
    return {key: each for key, each in found.items() if each.payload.keys() >= _OF_CHUNKS}


def needed_by(request: SearchRequest) -> int:
    """Return how many candidates a search probably needs: some more than it shows."""
    return request.depth + max(_SPARE, request.depth // 2)


class _Walk:
    """A walk over the candidates of one search, until ``limit`` are valid or a candidate cannot be judged.

    A candidate cannot be judged if ``committed`` returns None for it, or if there is a ``condition`` and the
    candidate's text has not been read. ``valid`` holds the valid candidates. ``is_blocked`` says that the walk ended at
    a candidate that cannot be judged.
    """

    def __init__(
        self,
        candidates: Sequence[Candidate],
        committed: Callable[[Candidate], bool | None],
        fetched: Fetched,
        limit: int,
        group: bool,
        condition: ParsedQuery | None,
    ) -> None:
        self.valid: list[Candidate] = []
        self.is_blocked = False
        self._group = group
        self._condition = condition
        self._left: Sequence[Candidate] = ()
        self._taken: set[str] = set()
        for place, candidate in enumerate(candidates):
            source = candidate.source
            if len(self.valid) == limit:
                return
            if group and source in self._taken:
                continue
            is_committed = committed(candidate)
            admitted = True if condition is None else fetched.admitted(candidate.id, condition)
            if is_committed is None or admitted is None:
                self.is_blocked, self._left = True, candidates[place:]
                return
            if is_committed and admitted:
                self.valid.append(candidate)
                self._taken.add(source)

    def wanted(self, needed: int, offset: int) -> Iterator[str]:
        """Yield the ids of the records and chunks that the walk needs next, to reach ``needed`` valid candidates."""
        sources = set(self._taken)
        place = len(self.valid)
        for candidate in self._left:
            if place >= needed:
                return
            if self._group and candidate.source in sources:
                continue
            yield record_id(candidate.source)
            if place >= offset or self._condition is not None:  # chunks before ``offset`` are on earlier pages
                yield candidate.id
            if self._condition is None:  # with a condition, a later chunk may be the first that satisfies it
                sources.add(candidate.source)
            place += 1
