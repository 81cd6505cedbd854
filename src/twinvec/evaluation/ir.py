"""Retrieval: how well the relevant documents are found, by a model's exact search or by any retriever.

A hit on the query's own document (the one with its id) is left out, as BEIR does for sets whose queries are taken from
the documents (ArguAna); where the judgements call that document relevant, the ids coincide by chance and it stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.measures import MEASURES, Measured, cutoff, measure_run
from twinvec.evaluation.models.text_model import TextModel
from twinvec.evaluation.statistics import RESAMPLES, Interval, PairedTest, interval, paired_test
from twinvec.retrieval.base import Hit, Retriever
from twinvec.retrieval.documents import Document
from twinvec.retrieval.memory_index import MemoryIndex
from twinvec.retrieval.retrieve_rerank import search_many
from twinvec.similarity import semantic_search


@dataclass(frozen=True)
class IrResult:
    """Measures of one system on one set.

    Attributes:
        data: What was measured on.
        run: Query id -> document id -> score.
        measured: Per query and on average, x 100.
        interval: 95%, of the first measure.
    """

    data: BeirSet
    run: dict[str, dict[str, float]]
    measured: Measured
    interval: Interval | None
    figures: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The figures, and the interval of the first."""
        bounds = {f"{next(iter(self.figures))}_interval": self.interval.bounds} if self.interval else {}
        return {**self.figures, **bounds}


def evaluate_ir(
    model: TextModel,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    depth: int = 0,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> IrResult:
    """Search exactly, by cosine, with the model's vectors of queries and documents.

    The run holds as many hits as the measures look at, or ``depth`` where that is more.
    """
    depth = max(depth, *map(cutoff, measures))
    documents = [document.full_text for document in data.documents]
    corpus = model.encode_document(documents, progress=progress)
    queries = model.encode_query(list(data.queries.values()))
    scores, rows = semantic_search(queries, corpus, depth + 1)
    run = {
        query: {data.documents[row].id: float(score) for score, row in zip(scores[index], rows[index], strict=True)}
        for index, query in enumerate(data.queries)
    }
    return measure_ir(run, data, measures=measures, depth=depth, resamples=resamples)


def evaluate_retriever(
    retriever: Retriever,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    depth: int = 0,
    resamples: int = RESAMPLES,
    **options: Any,
) -> IrResult:
    """Ask a retriever that holds the set's documents under their ids; ``options`` go to its search."""
    hits = search_all(retriever, data, max(depth, *map(cutoff, measures)) + 1, **options)
    return measure_ir(as_run(hits), data, measures=measures, depth=depth, resamples=resamples)


def bm25_index(documents: Sequence[Document]) -> MemoryIndex:
    """The BM25 baseline: search it with ``mode="sparse"``."""
    return MemoryIndex(_NoVectors(), documents)


def measure_ir(
    run: Mapping[str, Mapping[str, float]],
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    depth: int = 0,
    resamples: int = RESAMPLES,
) -> IrResult:
    """Measure a run, for instance one read from a file, against the judgements of ``data``.

    Of the run are kept as many hits as the measures look at, or ``depth`` where that is more.
    """
    cut = without_own(run, data, max(depth, *map(cutoff, measures)))
    measured = measure_run(cut, data.qrels, measures)
    first = measured.per_query[measures[0]]
    bounds = interval(first, resamples=resamples) if len(first) > 1 else None
    return IrResult(data, cut, measured, bounds, {**measured.figures, "queries": len(measured.queries)})


def compare_ir(first: IrResult, second: IrResult, measure: str, *, resamples: int = RESAMPLES) -> PairedTest:
    """Test two systems on the same queries."""
    return paired_test(first.measured.per_query[measure], second.measured.per_query[measure], resamples=resamples)


def search_all(retriever: Retriever, data: BeirSet, limit: int, **options: Any) -> dict[str, list[Hit]]:
    """Query id -> hits; ``options`` go to the search."""
    return dict(zip(data.queries, search_many(retriever, list(data.queries.values()), limit, **options), strict=True))


def as_run(found: Mapping[str, Sequence[Hit]]) -> dict[str, dict[str, float]]:
    """Hits as a run that keeps their order, whatever their scores: equal ones are set apart by a hair."""
    run: dict[str, dict[str, float]] = {}
    for query, hits in found.items():
        scores: dict[str, float] = {}
        last = np.float32(np.inf)
        for hit in hits:  # trec_eval holds scores as float32
            last = min(np.float32(hit.score), np.nextafter(last, np.float32(-np.inf)))
            scores.setdefault(hit.id, float(last))
        run[query] = scores
    return run


def without_own(run: Mapping[str, Mapping[str, float]], data: BeirSet, depth: int) -> dict[str, dict[str, float]]:
    """The best ``depth`` hits of each query, without its own document; see the top of this file."""
    cut = {}
    for query, hits in run.items():
        own = query if data.qrels.get(query, {}).get(query, 0) <= 0 else None
        best = sorted((hit for hit in hits.items() if hit[0] != own), key=lambda hit: (hit[1], hit[0]), reverse=True)
        cut[query] = dict(best[:depth])
    return cut


class _NoVectors:
    """Lets the memory index run without a model: BM25 looks at words only."""

    def encode_query(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 1), dtype=np.float32)

    def encode_document(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        return np.ones((len(texts), 1), dtype=np.float32)
