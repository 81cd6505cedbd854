"""MaxSim: reranking by the token states of the bi-encoder (late interaction), without another model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinvec.arrays import FloatArray, ScoreArray, standardized
from twinvec.rerankers.hit_lists import checked_hit_lists, reordered
from twinvec.retrieval.analysis import NEWEST_ANALYSIS, Analyzer
from twinvec.retrieval.base import Hit, TokenEncoder
from twinvec.retrieval.passages import with_state_passages
from twinvec.retrieval.relevance import Calibration, relevance_by_states, states_calibration
from twinvec.retrieval.retrieve_rerank import BatchReranker
from twinvec.support.checks import check_methods, number
from twinvec.support.progress import progress_bar
from twinvec.support.slicing import sliced_by_weight

_QUERIES_AT_ONCE = 2**14
_QUERY_CHARACTERS_AT_ONCE = 2**19  # the token states of queries with this many characters take about 200 MB
_TEXTS_AT_ONCE = 256


class MaxSimReranker(BatchReranker):
    """Late interaction over the encoder's own token states, mixed with the score of the stage before.

    MaxSim (Khattab and Zaharia 2020, ColBERT, equation 3) takes, for each token of the query, the best cosine with a
    token of the text; here the score is the mean over the query's tokens, not the sum. Scores are comparable only
    within one list of candidates, so both are standardised within it (mean 0, standard deviation 1) and mixed:

    ``(1 - mix) * z(before) + mix * z(maxsim)``

    If the usual MaxSim of related and of unrelated texts is known for the model (``landmarks``), the relevance of a hit
    combines its relevance before and MaxSim.

    Args:
        encoder: The encoder that found the candidates, such as an ``Encoder``.
        mix: Weight of MaxSim, from 0 (the order of the stage before) to 1 (MaxSim alone).
        analyzer: The word analysis of the hits' index, to mark matches in passages. Default: English.

    Raises:
        ConfigurationError: ``mix`` lies outside 0 to 1, or the encoder has no token states.
    """

    stage = "maxsim"

    def __init__(self, encoder: TokenEncoder, *, mix: float = 0.4, analyzer: Analyzer | None = None) -> None:
        number(mix, "mix", 0, 1)
        check_methods(encoder, ("encode_tokens",), "encoder", "an encoder of token states, such as Encoder(...)")
        self.encoder = encoder
        self._mix = mix
        self._analyzer = analyzer or Analyzer(version=NEWEST_ANALYSIS)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.encoder!r}, mix={self._mix:g})"

    def rerank_many(
        self,
        queries: Sequence[str],
        hits_lists: Sequence[Sequence[Hit]],
        limit: int | None = None,
        *,
        progress: bool = False,
    ) -> list[list[Hit]]:
        """Rerank the hits of each query.

        Queries are processed in blocks of up to 16,384. The token states of a text are computed once for each block.
        Memory holds the states of the block's queries and of 256 texts.
        """
        queries, lists = checked_hit_lists(queries, hits_lists, limit)
        reranked: list[list[Hit]] = []
        for block in sliced_by_weight(
            range(len(queries)),
            lambda row: len(queries[row]),
            most=_QUERIES_AT_ONCE,
            heaviest=_QUERY_CHARACTERS_AT_ONCE,
        ):
            part = [lists[row] for row in block]
            found = self.compare([queries[row] for row in block], part, progress)
            landmarks = self.landmarks()
            for hits, scores in zip(part, found, strict=True):
                before = np.array([hit.score for hit in hits], dtype=np.float64)
                relevance = [
                    relevance_by_states(hit.relevance, float(score), landmarks)
                    for hit, score in zip(hits, scores, strict=True)
                ]
                final = mixed_scores(before, scores, self._mix)
                reranked.append(reordered(hits, self.stage, scores, final, limit, relevance))
        return reranked

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        """Rerank the hits of one query, and replace their passages as ``with_passages`` does."""
        return self.with_passages(query, super().rerank(query, hits, limit))

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of one query, each passage replaced by the best passage by token states.

        Only the first 20 hits with a passage get a new passage: computing token states takes some 10 ms a text.
        """
        return with_state_passages(query, hits, self.encoder, self._analyzer)

    def landmarks(self) -> Calibration | None:
        """Return typical MaxSim scores of unrelated and of near texts for the encoder's model, or None if unknown.

        A subclass may use the landmarks of its collection.
        """
        return states_calibration(self.encoder)

    def compare(self, queries: list[str], lists: list[list[Hit]], progress: bool) -> list[FloatArray]:
        """Return the MaxSim of each query with each of its hits. A subclass may read stored token states instead."""
        scores = [np.zeros(len(hits), dtype=np.float32) for hits in lists]
        places: dict[str, list[tuple[int, int]]] = {}  # text -> (query, hit) of each occurrence
        for row, hits in enumerate(lists):
            for column, hit in enumerate(hits):
                places.setdefault(hit.text, []).append((row, column))
        if not places:
            return scores
        query_states = self.encoder.encode_tokens(queries, prompt="query")
        texts = list(places)  # in the order of the queries, so that the texts of a block belong to few queries
        with progress_bar("Reranking", len(texts), "texts", shown=progress) as advance:
            for start in range(0, len(texts), _TEXTS_AT_ONCE):
                block = texts[start : start + _TEXTS_AT_ONCE]
                states = self.encoder.encode_tokens(block, prompt="document", on_batch=advance)
                by_query: dict[int, list[tuple[int, int]]] = {}  # query -> (text of the block, hit)
                for number, text in enumerate(block):
                    for row, column in places[text]:
                        by_query.setdefault(row, []).append((number, column))
                for row, wanted in by_query.items():
                    numbers, columns = zip(*wanted, strict=True)
                    scores[row][list(columns)] = maxsim(query_states[row], [states[number] for number in numbers])
        return scores


def mixed_scores(before: ScoreArray, maxsim: ScoreArray, mix: float) -> ScoreArray:
    """Standardise and mix the scores of a stage and those of MaxSim for the same n candidates: shape (n,)."""
    return (1 - mix) * standardized(before, before) + mix * standardized(maxsim, maxsim)


def maxsim(query_QD: FloatArray, texts: Sequence[FloatArray]) -> FloatArray:
    """Return MaxSim of a query with each of n texts, from their token states, which have length 1: shape (n,).

    MaxSim is the mean over the query's tokens of the best cosine with a token of the text; 0 if either has no tokens.
    """
    lengths = np.array([len(states_TD) for states_TD in texts], dtype=np.int64)
    scores = np.zeros(len(texts), dtype=np.float32)
    filled = lengths > 0
    if len(query_QD) and filled.any():
        # S counts the tokens of all texts
        cosines_SQ = np.concatenate([states_TD for states_TD in texts if len(states_TD)]) @ query_QD.T
        starts = (np.cumsum(lengths) - lengths)[filled]
        scores[filled] = np.maximum.reduceat(cosines_SQ, starts, axis=0).mean(axis=1)
    return scores
