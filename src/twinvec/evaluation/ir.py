"""Retrieval: how well relevant documents are found, by a model's exact search or by any retriever.

The document that has the query's id is left out of the hits, as in BEIR (ArguAna), unless it is judged relevant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet, check_set
from twinvec.evaluation.measures import MEASURES, Measured, best_first, check_run, deepest, measure_run
from twinvec.evaluation.models.text_model import TextModel, check_text_model
from twinvec.evaluation.statistics import (
    RESAMPLES,
    Interval,
    PairedTest,
    check_resamples,
    interval,
    paired_test,
    with_interval,
)
from twinvec.retrieval.base import Hit, Retriever
from twinvec.retrieval.documents import Document
from twinvec.retrieval.memory_index import MemoryIndex
from twinvec.retrieval.retrieve_rerank import search_many, without_passages
from twinvec.similarity import semantic_search
from twinvec.support.checks import check_choice, check_data, check_methods, integer, shown
from twinvec.text import is_list

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class IrResult:
    """Measures of one system on one set.

    Attributes:
        run: Query id -> document id -> score.
        measured: The measures of each query, x 100.
        interval: 95% interval of the first measure; None for a single query.
        figures: The means of the measures, and other figures of the system.
    """

    data: BeirSet
    run: dict[str, dict[str, float]]
    measured: Measured
    interval: Interval | None
    figures: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the figures, and the interval of the first measure."""
        return with_interval(self.figures, self.interval)


def evaluate_ir(
    model: TextModel,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    depth: int = 0,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> IrResult:
    """Measure a model's exact search by cosine. The run keeps ``depth`` hits, or more if the measures need more.

    Raises:
        ConfigurationError: a measure is unknown, or ``model`` is not a model.
        InputError: ``data`` is not a retrieval set, or has no queries or no documents.
    """
    check_text_model(model, "encode_query", "encode_document")
    check_set(data)
    if not data.documents:
        raise InputError(f"{data.name}: no documents; if a collection holds them, use evaluate_retriever(collection)")
    depth, resamples = _cut(depth, measures), check_resamples(resamples)
    documents = [document.full_text for document in data.documents]
    corpus = model.encode_document(documents, progress=progress)
    queries = model.encode_query(list(data.queries.values()))
    scores, rows = semantic_search(queries, corpus, depth + 1)
    return measure_ir(run_of_rows(data, scores, rows), data, measures=measures, depth=depth, resamples=resamples)


def evaluate_retriever(
    retriever: Retriever,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    depth: int = 0,
    resamples: int = RESAMPLES,
    **options: Any,
) -> IrResult:
    """Measure a retriever that holds the set's documents under their ids; ``options`` go to its search.

    Errors are those of ``evaluate_ir``, but the set needs no documents.
    """
    check_resamples(resamples)
    hits = search_all(retriever, data, _cut(depth, measures) + 1, **options)
    return measure_ir(as_run(hits), data, measures=measures, depth=depth, resamples=resamples)


def bm25_index(documents: Sequence[Document]) -> MemoryIndex:
    """Return an index for the BM25 baseline; search it with ``mode="sparse"``."""
    return MemoryIndex(_NoVectors(), documents)


def measure_ir(
    run: Mapping[str, Mapping[str, float]],
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    depth: int = 0,
    resamples: int = RESAMPLES,
) -> IrResult:
    """Measure a run, such as one from a file, by the judgements of ``data``; ``depth`` as in ``evaluate_ir``."""
    check_run(run)
    check_data(data, BeirSet, "data", "a BeirSet(...), as load_beir returns it")
    cut = without_own(run, data, _cut(depth, measures))
    return as_result(measure_run(cut, data.qrels, measures), cut, data, resamples=resamples)


def _cut(depth: int, measures: Sequence[str]) -> int:
    return max(integer(depth, "depth", least=0), deepest(measures))


def as_result(measured: Measured, run: dict[str, dict[str, float]], data: BeirSet, *, resamples: int) -> IrResult:
    """Return the measures of a run with their means, and the interval of the first measure."""
    first = measured.per_query[measured.main]
    bounds = interval(first, resamples=resamples) if len(first) > 1 else None
    return IrResult(data, run, measured, bounds, {**measured.figures, "queries": len(measured.queries)})


def compare_ir(
    first: IrResult, second: IrResult, measure: str | None = None, *, resamples: int = RESAMPLES
) -> PairedTest:
    """Test two systems on the same queries, by one of their measures (default: the first).

    Raises ConfigurationError if the results are of different queries, or lack the measure.
    """
    for name, result in (("first", first), ("second", second)):
        check_data(result, IrResult, name, "an IrResult, as evaluate_ir returns it")
    if first.measured.queries != second.measured.queries:
        raise ConfigurationError("first, second: the results are of different queries; measure both on one set")
    measure = first.measured.main if measure is None else measure
    for name, result in (("first", first), ("second", second)):
        check_choice(measure, result.measured.per_query, f"{name}: the measure")
    return paired_test(first.measured.per_query[measure], second.measured.per_query[measure], resamples=resamples)


def search_all(retriever: Retriever, data: BeirSet, limit: int, **options: Any) -> dict[str, list[Hit]]:
    """Return query id -> hits without passages; ``options`` go to the search."""
    check_methods(retriever, ("search",), "retriever", "a retriever, such as MemoryIndex(...) or a collection")
    check_set(data)
    found = search_many(retriever, list(data.queries.values()), limit, **without_passages(retriever), **options)
    return dict(zip(data.queries, found, strict=True))


def check_finds(found: Iterable[Sequence[Hit]], data: BeirSet) -> None:
    """Raise InputError if no hit is a document of the set, which suggests that the collection has other ids.

    Hits are not checked for a set without documents.
    """
    known = {document.id for document in data.documents}
    if known and not any(hit.id in known for hits in found for hit in hits):
        raise InputError(
            f"{data.name}: the collection finds none of its documents; ingest the documents of the set under their ids"
        )


def check_answers_held(collection: Any, data: BeirSet, warn: Callable[[str], None] = logger.warning) -> None:
    """Call ``warn`` if a ``twinvec_qdrant.Collection`` lacks relevant documents, because no search can find those.

    Raise InputError if ``data`` is not a set with queries. Also raise InputError if the set has no documents of its
    own, and the collection lacks all relevant documents.
    """
    check_set(data)
    answers = {name for judged in data.qrels.values() for name, relevance in judged.items() if relevance > 0}
    lacking = sorted(answers.difference(collection.find()))
    if not lacking:
        return
    if not data.documents and len(lacking) == len(answers):
        raise InputError(
            f"{data.name}: the collection holds none of the {len(answers)} relevant documents, such as {lacking[0]!r}; "
            "it must hold them under the ids of the judgements"
        )
    warn(
        f"{data.name}: the collection lacks {len(lacking)} of the {len(answers)} relevant documents, such as "
        f"{lacking[0]!r}; they count as not found"
    )


def run_of_rows(data: BeirSet, scores: Any, rows: Any) -> dict[str, dict[str, float]]:
    """Return the run of an exact search, given the scores and rows of the best documents of each query."""
    return {
        query: {data.documents[row].id: float(score) for score, row in zip(*found, strict=True)}
        for query, *found in zip(data.queries, scores, rows, strict=True)
    }


def as_run(found: Mapping[str, Sequence[Hit]]) -> dict[str, dict[str, float]]:
    """Return hits as a run that keeps their order: a score that is not below the one before is lowered."""
    if not isinstance(found, Mapping):
        raise InputError(f"found: expected a mapping of query ids to lists of hits, got {shown(found)}")
    run: dict[str, dict[str, float]] = {}
    for query, hits in found.items():
        if not is_list(hits) or not all(isinstance(hit, Hit) for hit in hits):
            raise InputError(f"found: query {query!r}: expected a list of hits, got {shown(hits)}")
        scores: dict[str, float] = {}
        last = np.float32(np.inf)
        for hit in hits:  # scores as float32, as trec_eval keeps them
            last = min(np.float32(hit.score), np.nextafter(last, np.float32(-np.inf)))
            scores.setdefault(hit.id, float(last))
        run[query] = scores
    return run


def without_own(run: Mapping[str, Mapping[str, float]], data: BeirSet, depth: int) -> dict[str, dict[str, float]]:
    """Return each query's best ``depth`` hits without the document of the query's id (see the module's docstring)."""
    cut = {}
    for query, hits in run.items():
        own = query if data.qrels.get(query, {}).get(query, 0) <= 0 else None
        cut[query] = dict([hit for hit in best_first(hits) if hit[0] != own][:depth])
    return cut


class _NoVectors:
    """An encoder for a memory index that only uses BM25."""

    def encode_query(self, texts: Sequence[str]) -> Any:
        return np.ones((len(texts), 1), dtype=np.float32)

    def encode_document(self, texts: Sequence[str], *, progress: bool = False) -> Any:
        return self.encode_query(texts)
