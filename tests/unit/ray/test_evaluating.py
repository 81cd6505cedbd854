"""Measures of what is found on a cluster are those of a search in one process."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import compare_ir, measure_ir, run_of_rows
from twinvec.evaluation.measures import MEASURES
from twinvec.retrieval.documents import Document
from twinvec.similarity import semantic_search
from twinvec_ray import evaluate, nearest
from vector_blocks import cut, small_numbers, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

COUNT = 400


@pytest.fixture(scope="module")
def data():
    """Queries, half of them documents too, with judgements; equal scores are frequent."""
    random = np.random.default_rng(3)
    documents = [f"d{row:03}" for row in range(COUNT)]
    queries = [f"q{row}" for row in range(20)] + documents[:20]
    qrels = {
        query: {name: int(random.integers(0, 3)) for name in random.choice(documents, 12)}
        for query in random.permutation(queries[3:]).tolist()
    }
    qrels["d007"]["d007"] = 1
    return BeirSet("small", [Document(name, name) for name in documents], dict.fromkeys(queries, ""), qrels)


@pytest.fixture(scope="module")
def vectors():
    """Of queries and documents, from a grid, so that no product is rounded."""
    documents = small_numbers(COUNT, 12, seed=1)
    return np.vstack([small_numbers(20, 12, seed=2), documents[:20]]), documents


@pytest.fixture(scope="module")
def found(cluster, data, vectors):
    """The nearest documents."""
    queries, documents = vectors
    return nearest(
        cluster.data.from_arrow(cut(table(queries, list(data.queries)), [7, 20])),
        cluster.data.from_arrow(cut(table(documents, [each.id for each in data.documents]), [100, 1, 150])),
        101,
        measure="dot",
        block_rows=16,
    )


@pytest.mark.parametrize("measures", [MEASURES, ("mrr@3", "recall@20")])
def test_figures_are_those_of_one_process(found, data, vectors, measures):
    scores, rows = semantic_search(*vectors, 101, measure="dot")
    expected = measure_ir(run_of_rows(data, scores, rows), data, measures=measures)
    result = evaluate(found, data.qrels, measures=measures)
    assert result.measured.queries == expected.measured.queries
    for measure in measures:
        np.testing.assert_array_equal(result.measured.per_query[measure], expected.measured.per_query[measure])
    assert result.as_json() == expected.as_json()
    assert 0 < result.figures[measures[0]] < 100
    assert compare_ir(result, expected).difference == 0


def test_a_judged_query_that_was_not_searched_counts(found, data):
    alone = evaluate(found, {"q5": data.qrels["q5"]}, measures=["recall@100"])
    both = evaluate(found, {"missing": {"d001": 1}, "q5": data.qrels["q5"]}, measures=["recall@100"])
    assert alone.interval is None
    assert both.measured.per_query["recall@100"].tolist() == [0, alone.figures["recall@100"]]


def test_lists_that_are_too_short_are_told(found, data, caplog):
    with caplog.at_level(logging.WARNING):
        evaluate(found, data.qrels, measures=["recall@100"])
        assert not caplog.records
        evaluate(found, data.qrels, measures=["recall@101"])
    assert "give nearest a limit of 102" in caplog.text


def test_errors_say_why(cluster, found, data):
    with pytest.raises(InputError, match="no judged queries"):
        evaluate(found, {})
    with pytest.raises(InputError, match="none of its queries is judged"):
        evaluate(found, {"nobody": {"d001": 1}})
    with pytest.raises(ConfigurationError, match="measure 'speed@1'"):
        evaluate(found, data.qrels, measures=["speed@1"])
    with pytest.raises(InputError, match=r"the query '\w+' comes twice"):
        evaluate(found.union(found), data.qrels)
    with pytest.raises(ConfigurationError, match="found: no column 'scores'"):
        evaluate(found.drop_columns(["scores"]), data.qrels)
    with pytest.raises(InputError, match="found: the dataset is empty"):
        evaluate(found.limit(0), data.qrels)
