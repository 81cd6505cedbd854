"""Reranking: what it makes of the hits of a stage, and what that gains over the same candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from twinvec.encoder import Encoder
from twinvec.engines.base import FloatArray
from twinvec.errors import ConfigurationError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import IrResult, as_run, compare_ir, measure_ir, search_all
from twinvec.evaluation.measures import MEASURES
from twinvec.evaluation.statistics import RESAMPLES, PairedTest
from twinvec.frameworks import open_reranker
from twinvec.progress import Advance
from twinvec.retrieval import Hit, Reranker, Retriever

_TEXTS_A_STEP = 64
_QUERIES_A_STEP = 8


@dataclass(frozen=True)
class Reranked:
    """A result after reranking.

    Attributes:
        result: The measures of the new order.
        gain: Of the first measure, over the order before; None where there is one query only.
    """

    result: IrResult
    gain: PairedTest | None

    def as_json(self) -> dict[str, Any]:
        """The figures, and the gain with its interval."""
        figures = self.result.as_json()
        if self.gain is not None:
            bounds = self.gain.interval.bounds
            figures |= {"gain": self.gain.difference, "gain_interval": bounds, "p_value": self.gain.p_value}
        return figures


def gain(before: IrResult, after: IrResult, *, resamples: int = RESAMPLES) -> PairedTest | None:
    """Of the first measure; None where there is one query only."""
    measure = next(iter(before.measured.per_query))
    return compare_ir(before, after, measure, resamples=resamples) if len(before.measured.queries) > 1 else None


class Watched:
    """An encoder whose token states are counted while they are computed: what ``MaxSimReranker`` asks of one."""

    def __init__(self, encoder: Encoder, advance: Advance) -> None:
        self._encoder = encoder
        self._advance = advance

    def encode_tokens(self, texts: Sequence[str], **options: Any) -> list[FloatArray]:
        """As the encoder's."""
        states: list[FloatArray] = []
        for start in range(0, len(texts), _TEXTS_A_STEP):
            part = texts[start : start + _TEXTS_A_STEP]
            states += self._encoder.encode_tokens(part, **options)
            self._advance(len(part))
        return states


class _InSteps:
    """A reranker that takes a few queries at a time, and counts their hits."""

    def __init__(self, reranker: Reranker, advance: Advance) -> None:
        self._reranker = reranker
        self._advance = advance

    def rerank(self, query: str, hits: Sequence[Hit], limit: int | None = None) -> list[Hit]:
        self._advance(len(hits))
        return self._reranker.rerank(query, hits, limit)

    def rerank_many(
        self, queries: Sequence[str], hits_lists: Sequence[Sequence[Hit]], limit: int | None = None
    ) -> list[list[Hit]]:
        reranked: list[list[Hit]] = []
        for start in range(0, len(queries), _QUERIES_A_STEP):
            part = slice(start, start + _QUERIES_A_STEP)
            reranked += _rerank_many(self._reranker, queries[part], hits_lists[part], limit)
            self._advance(sum(map(len, hits_lists[part])))
        return reranked


def find_reranker(name: str, encoder: Any, advance: Advance | None = None) -> Reranker:
    """The reranker of this name behind searches with ``encoder``; ``advance`` is told how many texts it has looked at.

    Raises:
        ConfigurationError: "maxsim" with something else than an ``Encoder``.
        ModelError: the cross-encoder is not found, damaged or not supported.
    """
    if name != "maxsim":
        reranker = open_reranker(name)
        return _InSteps(reranker, advance) if advance else reranker
    if not isinstance(encoder, Encoder):
        raise ConfigurationError(f"maxsim compares token states, and {getattr(encoder, 'name', encoder)} has none")
    return open_reranker(name, encoder=cast(Encoder, Watched(encoder, advance)) if advance else encoder)


def evaluate_stages(
    retriever: Retriever,
    reranker: Reranker,
    data: BeirSet,
    *,
    candidates: int = 100,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    **options: Any,
) -> dict[str, IrResult]:
    """What reranking gains: the measures after each stage, over the same candidates."""
    found = search_all(retriever, data, candidates + 1, **options)
    reranked = rerank_all(reranker, data, found)
    return {
        "retrieved": measure_ir(as_run(found), data, measures=measures, resamples=resamples),
        "reranked": measure_ir(as_run(reranked), data, measures=measures, resamples=resamples),
    }


def rerank_result(
    result: IrResult, reranker: Reranker, *, candidates: int = 100, resamples: int = RESAMPLES
) -> Reranked:
    """Rerank the best ``candidates`` hits of a result, whole documents."""
    texts = {document.id: document.full_text for document in result.data.documents}
    found = {
        query: [Hit(name, texts[name], score) for name, score in list(hits.items())[:candidates]]
        for query, hits in result.run.items()
    }
    run = as_run(rerank_all(reranker, result.data, found))
    measures = list(result.measured.per_query)
    reranked = measure_ir(run, result.data, measures=measures, resamples=resamples)
    return Reranked(reranked, gain(result, reranked, resamples=resamples))


def rerank_all(reranker: Reranker, data: BeirSet, found: Mapping[str, Sequence[Hit]]) -> dict[str, list[Hit]]:
    """Query id -> hits reranked, through ``rerank_many`` where the reranker has it."""
    reranked = _rerank_many(reranker, [data.queries[query] for query in found], list(found.values()))
    return dict(zip(found, reranked, strict=True))


def _rerank_many(
    reranker: Reranker, queries: Sequence[str], hits_lists: Sequence[Sequence[Hit]], limit: int | None = None
) -> list[list[Hit]]:
    if hasattr(reranker, "rerank_many"):
        reranked: list[list[Hit]] = reranker.rerank_many(queries, hits_lists, limit)
        return reranked
    return [reranker.rerank(query, hits, limit) for query, hits in zip(queries, hits_lists, strict=True)]
