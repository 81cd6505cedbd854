"""Evaluation of the results of ``nearest``, block by block, with the measures of ``twinvec.evaluation.ir``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet, Qrels
from twinvec.evaluation.ir import IrResult, as_result, without_own
from twinvec.evaluation.measures import MEASURES, Measured, deepest, measure_run
from twinvec.evaluation.statistics import RESAMPLES, Values
from twinvec.support.checks import check_methods
from twinvec_ray.blocks import blocks, check_columns, get
from twinvec_ray.cluster import check_dataset

if TYPE_CHECKING:
    from ray.data import Dataset

_BLOCK_ROWS = 1024
_COLUMNS = ("query", "ids", "scores")

logger = logging.getLogger(__name__)


def evaluate(
    found: Dataset,
    qrels: Qrels,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    name: str = "nearest",
) -> IrResult:
    """Evaluate the results of ``nearest``. ``twinvec evaluate`` gives the same figures for the same vectors.

    Args:
        found: The result of ``nearest``, with a limit above the largest k of the measures, because a query's own
            document is left out (see ``twinvec.evaluation.ir``). The default measures need a limit of 101.
        qrels: Query id -> document id -> relevance; ids as texts. Only judged queries count; a judged query that is
            missing in ``found`` scores 0.
        measures: Measures such as ``ndcg@10``, ``mrr@10``, ``map@100``, ``recall@100`` and ``precision@10``.
        resamples: Number of samples from which the interval is computed.
        name: Name of the set in the result.

    Returns:
        The measures of each query, their means and the interval of the first measure. ``run`` is empty: the hits stay
        in ``found``.

    Raises:
        ConfigurationError: a measure is unknown, or a column is missing.
        InputError: no query is judged, no judged query is in ``found``, or a judged query is there twice.
    """
    check_dataset(found, "found")
    if not isinstance(measures, (list, tuple)) or not measures:
        raise ConfigurationError(f"measures: expected a list of measures, got {measures!r}")
    depth = deepest(measures)
    if not qrels:
        raise InputError("no judged queries")
    check_methods(qrels, ("items",), "qrels", "a mapping of query ids to relevances")
    data = BeirSet(name, [], {}, {query: dict(grades) for query, grades in qrels.items()})
    rows = {query: row for row, query in enumerate(qrels)}
    per_query: dict[str, Values] = {measure: np.zeros(len(rows)) for measure in measures}
    longest, seen = 0, np.zeros(len(rows), dtype=bool)
    prepare = partial(_measured, data=data, measures=tuple(measures), depth=depth)
    for reference, _ in blocks(found, "found", _COLUMNS, _BLOCK_ROWS, prepare):
        table = get(reference)
        longest = max(longest, *table.column("hits").to_pylist())
        for number, query in enumerate(table.column("query").to_pylist()):
            row = rows.get(query)
            if row is None:
                continue
            if seen[row]:
                raise InputError(f"found: the query {query!r} comes twice")
            seen[row] = True
            for measure, values in per_query.items():
                values[row] = table.column(measure)[number].as_py()
    if not seen.any():
        raise InputError("found: none of its queries is judged")
    if longest <= depth:
        logger.warning(
            "no query has more than %d hits, but the measures look at %d, and a query's own document does not count: "
            "give nearest a limit of %d, unless there are no more vectors",
            longest,
            depth,
            depth + 1,
        )
    return as_result(Measured(list(rows), per_query), {}, data, resamples=resamples)


def _measured(batch: pa.Table, data: BeirSet, measures: Sequence[str], depth: int) -> pa.Table:
    """Return the measures and the number of hits of each query of a block; 0 for a query without judgements."""
    check_columns(batch.column_names, _COLUMNS, "found")
    columns = [batch.column(name).to_pylist() for name in _COLUMNS]
    queries = [str(query) for query in columns[0]]
    run = {
        query: {str(document): score for document, score in zip(*hits, strict=True)}
        for query, *hits in zip(queries, *columns[1:], strict=True)
        if query in data.qrels
    }
    values = dict.fromkeys(measures, np.zeros(len(queries)))
    if run:
        measured = measure_run(without_own(run, data, depth), {query: data.qrels[query] for query in run}, measures)
        place = {query: row for row, query in enumerate(measured.queries)}
        for measure, per_query in measured.per_query.items():
            values[measure] = np.array([per_query[place[query]] if query in place else 0.0 for query in queries])
    hits = [len(run.get(query, ())) for query in queries]
    return pa.table({"query": queries, "hits": hits, **values})
