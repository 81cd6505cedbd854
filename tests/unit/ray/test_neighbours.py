"""Nearest neighbours are those of one big product, however the rows lie in blocks."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twinvec.errors import ConfigurationError, InputError
from twinvec.similarity import semantic_search
from twinvec_ray.neighbours import as_matrix, compared, merged, nearest, vector_table
from vector_blocks import cut, in_order, small_numbers, table

COSINE = {"id": "id", "column": "vector", "measure": "cosine"}


@settings(max_examples=60)
@given(
    st.integers(0, 99),
    st.integers(1, 70),
    st.integers(1, 12),
    st.lists(st.integers(1, 30), max_size=4),
    st.sampled_from(["text", "number"]),
)
def test_blocks_make_no_difference_and_ties_are_in_the_order_of_ids(seed, count, limit, sizes, kind):
    random = np.random.default_rng(seed)
    vectors, queries = small_numbers(count, seed=seed), small_numbers(5, seed=seed + 1)
    ids = random.permutation(count).tolist()
    if kind == "text":
        ids = [f"é{each}" if each % 7 else f"A{each}" for each in ids]
    dot = {**COSINE, "measure": "dot"}
    asked = vector_table(table(queries), "queries", **dot)
    blocks = [vector_table(block, "vectors", **dot, distinct=True) for block in cut(table(vectors, ids), sizes)]
    found = compared(blocks[0], asked, limit)
    for block in blocks[1:]:
        found = merged([found, compared(block, asked, limit)], limit)
    expected = in_order(queries, vectors, ids, limit)
    assert list(zip(found.column("ids").to_pylist(), found.column("scores").to_pylist(), strict=True)) == expected
    assert found.column("query").to_pylist() == [f"v{row}" for row in range(5)]


def test_scores_of_a_pair_do_not_depend_on_its_block():
    random = np.random.default_rng(5)
    vectors, queries = random.normal(size=(301, 37)), random.normal(size=(9, 37))
    asked = vector_table(table(queries), "queries", **COSINE)
    blocks = [vector_table(each, "vectors", **COSINE) for each in cut(table(vectors), [1, 2, 100])]
    whole = compared(vector_table(table(vectors), "vectors", **COSINE), asked, 301)
    assert merged([compared(block, asked, 301) for block in blocks], 301) == whole


def test_equal_vectors_are_in_the_order_of_ids():
    """A product of matrices gives some of them, often the last ones, scores that differ in the last bit."""
    random = np.random.default_rng(7)
    vectors, ids = np.repeat(random.normal(size=(1, 384)), 500, axis=0), list(range(499, -1, -1))
    blocks = [vector_table(block, "vectors", **COSINE) for block in cut(table(vectors, ids), [7, 131])]
    for count in (1, 1, 1, 1, 1, 2, 3, 40):
        asked = vector_table(table(random.normal(size=(count, 384))), "queries", **COSINE)
        found = merged([compared(block, asked, 5) for block in blocks], 5)
        assert found.column("ids").to_pylist() == [[0, 1, 2, 3, 4]] * count


def test_cosines_are_those_of_a_search_in_one_array():
    random = np.random.default_rng(6)
    vectors, queries = random.normal(size=(400, 24)) * 50, random.normal(size=(31, 24)) / 50
    vectors[7] = 0
    asked = vector_table(table(queries), "queries", **COSINE)
    found = compared(vector_table(table(vectors), "vectors", **COSINE), asked, 10)
    scores, rows = semantic_search(queries, vectors, 10)
    assert [[int(each[1:]) for each in ids] for ids in found.column("ids").to_pylist()] == rows.tolist()
    np.testing.assert_allclose(np.array(found.column("scores").to_pylist()), scores, atol=1e-6)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0, 2.0], [3.0, 4.0]]),
        pa.array([[1.0, 2.0], [3.0, 4.0]], pa.large_list(pa.float32())),
        pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float16(), 2)),
        pa.array([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)).slice(1),
        pa.array([[0.0], [1.0, 2.0], [3.0, 4.0]]).slice(1),
    ],
)
def test_lists_of_all_floating_point_numbers_are_vectors(column):
    np.testing.assert_array_equal(as_matrix(pa.chunked_array([column]), ""), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(as_matrix(pa.chunked_array([column, column]), "")[2:], [[1, 2], [3, 4]])


FINE = [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"id": [1, 2]}, ConfigurationError, "vectors: no column 'vector'; the dataset's columns: id"),
        ({"name": [1, 2], "vector": FINE}, ConfigurationError, "no column 'id'"),
        ({"id": ["a", "b"], "vector": [[1.0, 2.0], [1.0, float("nan")]]}, InputError, "vector of 'b' is not finite"),
        ({"id": ["a", "b"], "vector": [[1.0, 2.0], [1.0, 2e19]]}, InputError, "'b' is .*too large for float32"),
        ({"id": pa.array([1, 2**63], pa.uint64()), "vector": FINE}, InputError, "an id is too large"),
        ({"id": [1, 2], "vector": [[1.0, 2.0], [1.0]]}, InputError, "vectors of 1 and 2 numbers"),
        ({"id": [1, 2], "vector": [[1.0, 2.0], None]}, InputError, "a row has no vector"),
        ({"id": [1, 2], "vector": [[1, 2], [3, 4]]}, InputError, "codes such as those of int8"),
        ({"id": [1, 2], "vector": ["a", "b"]}, InputError, "expected lists of numbers, got string"),
        ({"id": ["a", None], "vector": FINE}, InputError, "a row has no id"),
        ({"id": [1.5, 2.5], "vector": FINE}, InputError, "ids must be texts or whole numbers, got double"),
        ({"id": ["x", "x"], "vector": FINE}, InputError, "the id 'x' comes twice"),
    ],
)
def test_a_block_that_cannot_be_compared_says_why(columns, error, message):
    with pytest.raises(error, match=message):
        vector_table(pa.table(columns), "vectors", **COSINE, distinct=True)


def test_what_only_shows_between_blocks():
    asked = vector_table(table(FINE), "queries", **COSINE)
    prepared = partial(vector_table, what="vectors", **COSINE)
    with pytest.raises(InputError, match="queries have 2 numbers, vectors have 3"):
        compared(prepared(table([[1, 2, 3]])), asked, 3)
    one, two = (compared(prepared(table([[1, each]], ["x"])), asked, 3) for each in (1, 5))
    with pytest.raises(InputError, match="the id 'x' comes twice"):
        merged([one, two], 3)
    with pytest.raises(InputError, match="some ids are texts and some are numbers"):
        merged([one, compared(prepared(table([[1, 1]], [3])), asked, 3)], 3)


def test_arguments_are_checked_before_any_work():
    for wrong, message in [({"limit": 0}, "limit"), ({"block_rows": 0}, "block_rows"), ({"measure": "l2"}, "measure")]:
        with pytest.raises(ConfigurationError, match=message):
            nearest(None, None, **wrong)
