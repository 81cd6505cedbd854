"""Reranking: the measures after reranking, and the gain over the same candidates before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import IrResult, as_run, compare_ir, measure_ir, search_all, without_own
from twinvec.evaluation.measures import MEASURES
from twinvec.evaluation.statistics import RESAMPLES, PairedTest, check_resamples
from twinvec.rerankers.open import open_reranker
from twinvec.retrieval.base import Hit, Reranker, Retriever, check_limit
from twinvec.retrieval.retrieve_rerank import rerank_many
from twinvec.support.checks import check_data, check_methods, string


@dataclass(frozen=True)
class Reranked:
    """The measures after reranking, and the gain in the first measure (None for a single query)."""

    result: IrResult
    gain: PairedTest | None

    def as_json(self) -> dict[str, Any]:
        """Return the figures, and the gain with its interval."""
        figures = self.result.as_json()
        if self.gain is not None:
            bounds = self.gain.interval.bounds
            figures |= {"gain": self.gain.difference, "gain_interval": bounds, "p_value": self.gain.p_value}
        return figures


def gain(before: IrResult, after: IrResult, *, resamples: int = RESAMPLES) -> PairedTest | None:
    """Test the gain of ``after`` over ``before`` in the first measure; return None for a single query."""
    return compare_ir(before, after, resamples=resamples) if len(before.measured.queries) > 1 else None


def find_reranker(name: str, encoder: Any) -> Reranker:
    """Return the reranker with this name, for searches with ``encoder``; "maxsim" needs an ``Encoder``."""
    if string(name, "name") != "maxsim":
        return open_reranker(name)
    if not isinstance(encoder, Encoder):
        raise ConfigurationError(
            f"maxsim compares token states, and {getattr(encoder, 'name', encoder)} has none; name a cross-encoder"
        )
    return open_reranker(name, encoder=encoder)


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
    """Measure retrieval and reranking over the same candidates; ``options`` go to the search.

    The document that has the query's id is left out of the candidates, as in ``twinvec.evaluation.ir``.
    """
    check_reranking(reranker, candidates, resamples)
    searched = search_all(retriever, data, candidates + 1, **options)
    kept = without_own(as_run(searched), data, candidates)
    found = {query: [hit for hit in hits if hit.id in kept[query]] for query, hits in searched.items()}
    reranked = rerank_all(reranker, data, found)
    return {
        stage: measure_ir(as_run(hits), data, measures=measures, resamples=resamples)
        for stage, hits in (("retrieved", found), ("reranked", reranked))
    }


def rerank_result(
    result: IrResult, reranker: Reranker, *, candidates: int = 100, resamples: int = RESAMPLES, progress: bool = False
) -> Reranked:
    """Rerank the best ``candidates`` hits of a result, as whole documents; the other hits follow in their order."""
    check_data(result, IrResult, "result", "an IrResult, as evaluate_ir returns it")
    check_reranking(reranker, candidates, resamples)
    texts = {document.id: document.full_text for document in result.data.documents}
    found = {
        query: [Hit(name, texts[name], score) for name, score in hits.items()] for query, hits in result.run.items()
    }
    return rerank_hits(result, found, reranker, candidates=candidates, resamples=resamples, progress=progress)


def check_reranking(reranker: Reranker, candidates: int, resamples: int) -> None:
    """Raise ConfigurationError unless ``reranker`` can rerank, and both numbers are positive integers."""
    check_methods(reranker, ("rerank",), "reranker", "a reranker, such as MaxSimReranker(...)")
    check_limit(candidates, "candidates")
    check_resamples(resamples)


def rerank_hits(
    before: IrResult,
    found: Mapping[str, Sequence[Hit]],
    reranker: Reranker,
    *,
    candidates: int,
    resamples: int,
    progress: bool,
) -> Reranked:
    """Rerank the best ``candidates`` hits of each query of ``before``; the other hits follow in their order."""
    data, measures = before.data, list(before.measured.per_query)
    best = {query: hits[:candidates] for query, hits in found.items()}
    reranked = rerank_all(reranker, data, best, progress=progress)
    run = as_run({query: [*hits, *found[query][candidates:]] for query, hits in reranked.items()})
    after = measure_ir(run, data, measures=measures, resamples=resamples)
    return Reranked(after, gain(before, after, resamples=resamples))


def rerank_all(
    reranker: Reranker, data: BeirSet, found: Mapping[str, Sequence[Hit]], *, progress: bool = False
) -> dict[str, list[Hit]]:
    """Return query id -> reranked hits; ``found`` maps query ids to the hits before."""
    queries = [data.queries[query] for query in found]
    reranked = rerank_many(reranker, queries, list(found.values()), progress=progress)
    return dict(zip(found, reranked, strict=True))
