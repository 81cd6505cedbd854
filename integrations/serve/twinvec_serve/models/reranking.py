"""Rerankers that score for many requests at once: relevance from 0 to 1, comparable between requests.

A cross-encoder's relevance is the logistic function of its logit. MaxSim's relevance combines MaxSim and cosine, if the
core has a calibration of the model (``twinvec.retrieval.relevance``). For other models it is the weighted mean of both,
which orders texts equally well but is not comparable between models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from twinvec import CrossEncoderReranker, Encoder, Hit, MaxSimReranker
from twinvec.arrays import BoolArray, IntArray
from twinvec.retrieval.base import Reranker
from twinvec.retrieval.relevance import model_calibration, relevance, relevance_by_states, states_calibration
from twinvec_serve.models.batching import Batches, Computed
from twinvec_serve.models.waiting_room import WaitingRoom
from twinvec_serve.observing.metrics import Metrics

Pair = tuple[str, str]
Scored = tuple[Sequence[float], IntArray, BoolArray]
"""The relevance of pairs, their tokens, and whether one of their texts is truncated."""

_MIX = 0.4  # the weight of MaxSim, which is also the default of ``MaxSimReranker``


class RerankingModel:
    """One loaded reranker, which computes the pairs of all requests in common batches.

    ``max_tokens`` is the longest pair of a cross-encoder, or the longest text of MaxSim, in tokens.
    """

    def __init__(self, reranker: CrossEncoderReranker | MaxSimReranker, room: WaitingRoom, metrics: Metrics) -> None:
        self.reranker: Reranker = reranker
        compute: Callable[[list[Pair]], Scored]
        if isinstance(reranker, CrossEncoderReranker):
            compute, self.max_tokens = lambda pairs: _by_cross_encoder(reranker, pairs), reranker.max_tokens
        else:
            encoder = reranker.encoder
            assert isinstance(encoder, Encoder)
            compute, self.max_tokens = lambda pairs: _by_maxsim(reranker, encoder, pairs), encoder.max_tokens
        self._batches = Batches(compute, self.max_tokens, room, metrics)

    async def score(self, query: str, texts: Sequence[str]) -> Computed[float]:
        """Return the relevance of each text."""
        return await self._batches([(query, text) for text in texts])

    def close(self) -> None:
        """Finish the batches under way; blocks until then."""
        self._batches.close()


def _by_cross_encoder(reranker: CrossEncoderReranker, pairs: list[Pair]) -> Scored:
    relevance_N, tokens_N, truncated_N = reranker.relevance_counted(pairs)
    return relevance_N.tolist(), tokens_N, truncated_N


def _by_maxsim(reranker: MaxSimReranker, encoder: Encoder, pairs: list[Pair]) -> Scored:
    """Return the relevance of pairs. A query's tokens count once, in its first pair."""
    by_query: dict[str, list[str]] = {}
    for query, text in pairs:
        by_query.setdefault(query, []).append(text)
    queries, texts = list(by_query), list(dict.fromkeys(text for _, text in pairs))
    queries_QD, query_tokens_Q, truncated_Q = encoder.encode_counted(queries, prompt="query")
    texts_ND, text_tokens_N, truncated_N = encoder.encode_counted(texts, prompt="document")
    cosines_QN = encoder.similarity(queries_QD, texts_ND)
    lists = [[Hit("", text, 0.0) for text in of_query] for of_query in by_query.values()]
    maxsim = {
        query: iter(scores.tolist())
        for query, scores in zip(queries, reranker.compare(queries, lists, False), strict=True)
    }
    row_of, column_of = ({each: at for at, each in enumerate(items)} for items in (queries, texts))
    uncounted = dict(zip(queries, query_tokens_Q.tolist(), strict=True))
    relevant, tokens, truncated = [], [], []
    for query, text in pairs:
        row, column = row_of[query], column_of[text]
        relevant.append(_relevance(float(cosines_QN[row, column]), next(maxsim[query]), encoder))
        tokens.append(text_tokens_N[column] + uncounted.pop(query, 0))
        truncated.append(truncated_Q[row] or truncated_N[column])
    return relevant, np.array(tokens), np.array(truncated)


def _relevance(cosine: float, maxsim: float, encoder: Encoder) -> float:
    before = relevance({"dense": cosine}, 0, model_calibration(encoder))
    if before is None:
        return float(np.clip((1 - _MIX) * cosine + _MIX * maxsim, 0, 1))
    found = relevance_by_states(before, maxsim, states_calibration(encoder))
    assert found is not None
    return found
