"""Late interaction over the hits of a collection; with stored token states, only the query is encoded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.rerankers.maxsim import MaxSimReranker
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.base import Hit, TokenEncoder
from twinvec.retrieval.relevance import Calibration, states_calibration
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.schema import CHUNKS, digest
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.conditions import IdIs, field_is
from twinvec_qdrant.stores.points import Query, pages, states_name

_QUERIES = 32  # queries per request
_HITS = 512  # hits per look-up of their chunks


class CollectionMaxSim(MaxSimReranker):
    """``MaxSimReranker`` that computes relevance by the landmarks of a collection.

    ``served`` returns the collection's description and the encoder of its present model. A migration changes both.
    """

    def __init__(
        self, served: Callable[[], tuple[Description, Any]], encoder: TokenEncoder, *, mix: float, analyzer: Analyzer
    ) -> None:
        super().__init__(encoder, mix=mix, analyzer=analyzer)
        self._served = served

    def landmarks(self) -> Calibration | None:
        """Return the collection's landmarks for MaxSim scores, or None if it has none."""
        description, _ = self._served()
        return states_calibration(self.encoder, description.calibration)


class StoredMaxSim(CollectionMaxSim):
    """``CollectionMaxSim`` that uses the token states stored in ``backend``; scores are the same up to rounding.

    The encoder computes the token states of texts that the collection does not hold.
    """

    def __init__(
        self,
        backend: Backend,
        served: Callable[[], tuple[Description, Any]],
        encoder: TokenEncoder,
        *,
        mix: float,
        analyzer: Analyzer,
    ) -> None:
        super().__init__(served, encoder, mix=mix, analyzer=analyzer)
        self._backend = backend

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits unchanged: the encoder would have to compute token states to find passages."""
        return list(hits)

    def compare(self, queries: list[str], lists: list[list[Hit]], progress: bool) -> list[FloatArray]:
        """Return the scores of ``MaxSimReranker.compare``, from stored token states where the store has them."""
        description, self.encoder = self._served()
        scores = [np.full(len(hits), np.nan, dtype=np.float32) for hits in lists]
        for start in range(0, len(queries), _QUERIES):
            block = slice(start, start + _QUERIES)
            self._fill_in(queries[block], lists[block], scores[block], states_name(description.vector))
        missing = [
            [hit for hit, score in zip(hits, row, strict=True) if np.isnan(score)]
            for hits, row in zip(lists, scores, strict=True)
        ]
        for row, computed in zip(scores, super().compare(queries, missing, progress), strict=True):
            row[np.isnan(row)] = computed
        return scores

    def _fill_in(
        self, queries: Sequence[str], lists: Sequence[Sequence[Hit]], scores: Sequence[FloatArray], name: str
    ) -> None:
        """Set the scores of all hits whose texts are chunks of the collection."""
        chunks = self._chunks(hit for hits in lists for hit in hits)
        if not chunks:
            return
        states = self.encoder.encode_tokens(queries, prompt="query")
        rows = [row for row in zip(states, lists, scores, strict=True) if len(row[0])]  # a store rejects an empty query
        searches = []
        for query_QD, hits, _ in rows:
            ids = tuple({chunks[hit.text] for hit in hits if hit.text in chunks})
            searches.append(Query(query_QD, max(len(ids), 1), (IdIs(ids),), exact=True, name=name))
        for (query_QD, hits, row), found in zip(rows, self._backend.search(searches), strict=True):
            sums = {each.id: each.score for each in found}
            for column, hit in enumerate(hits):
                row[column] = sums.get(chunks.get(hit.text, ""), np.nan) / len(query_QD)

    def _chunks(self, hits: Iterable[Hit]) -> dict[str, str]:
        """Return the id of one chunk for each text; all chunks with the same text have the same token states."""
        found: dict[str, str] = {}
        for page in pages(hits, _HITS):
            texts = {digest(hit.text): hit.text for hit in page}
            named = ((hit.id, hit.id.rpartition("#")[0], hit.payload.get("source")) for hit in page)
            sources = {name for names in named for name in names if isinstance(name, str)}
            conditions = (CHUNKS, field_is("source", *sources), field_is("content", *texts))
            points = self._backend.scroll(conditions, ["content"])
            found.update((texts[point.payload["content"]], point.id) for point in points)
        return found
