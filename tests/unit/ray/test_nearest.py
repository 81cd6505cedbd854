"""On a cluster of two CPUs, the nearest neighbours are those of one big product."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from twinvec import Encoder
from twinvec.errors import ConfigurationError, InputError
from twinvec.similarity import semantic_search
from twinvec_ray import nearest, read
from twinvec_ray.encoding import vector_array
from vector_blocks import answers, cut, in_order, small_numbers, table

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]

FINE = [[1.0, 0.0], [0.0, 1.0]]


def test_uneven_blocks(cluster):
    vectors, queries = small_numbers(700, seed=1), small_numbers(50, seed=2)
    ids = np.random.default_rng(0).permutation(700).tolist()
    asked = table(queries, list(range(50)), other=["not a vector"] * 50)
    given = cluster.data.from_arrow(cut(table(vectors, ids, text=["t"] * 700), [1, 300, 5, 44, 60]))
    expected = dict(enumerate(in_order(queries, vectors, ids, 9)))
    for rows in (7, 64, 1000):
        found = nearest(cluster.data.from_arrow(cut(asked, [3, 40])), given, 9, measure="dot", block_rows=rows)
        assert found.columns() == ["query", "ids", "scores"]
        assert answers(found.take_all()) == expected


def test_queries_have_columns_of_their_own_and_files_are_read(cluster, tmp_path):
    vectors, queries = small_numbers(90, seed=3), small_numbers(4, seed=4)
    asked = pa.table({"name": list("abcd"), "asked": vector_array(queries)})
    cluster.data.from_arrow(table(vectors, text=["t"] * 90)).repartition(6).write_parquet(str(tmp_path))
    given = read(str(tmp_path))
    found = nearest(cluster.data.from_arrow(asked), given, 200, query_id="name", query_column="asked", measure="dot")
    expected = in_order(queries, vectors, [f"v{row}" for row in range(90)], 200)
    assert answers(found.take_all()) == dict(zip("abcd", expected, strict=True))


def test_arrays_of_numpy_are_vectors_too(cluster):
    vectors = small_numbers(60, seed=5)

    def arrays(batch):
        return {"id": batch["id"], "vector": vectors[batch["id"]].astype(np.float64)}

    def codes(batch):
        return {"id": batch["id"], "vector": vectors[batch["id"]].astype(np.int8)}

    def cubes(batch):
        return {"id": batch["id"], "vector": vectors[batch["id"]].reshape(-1, 2, 2)}

    rows = cluster.data.range(60, override_num_blocks=4)
    given, *refused = (rows.map_batches(each, batch_format="numpy") for each in (arrays, codes, cubes))
    found = nearest(given, given, 5, measure="dot", block_rows=11)
    assert answers(found.take_all()) == dict(enumerate(in_order(vectors, vectors, list(range(60)), 5)))
    for wrong, message in zip(refused, ["got int8; codes", "expected vectors of one size"], strict=True):
        with pytest.raises(InputError, match=message):
            nearest(given, wrong)


def test_vectors_that_are_encoded_meanwhile(cluster, exported_model):
    from twinvec_ray import encode

    texts = [f"the {word} number {row}" for row in range(40) for word in ("dog", "moon", "file")]
    given = cluster.data.from_items([{"id": row, "text": text} for row, text in enumerate(texts)])
    encoded = encode(given, exported_model, engine="openvino", batch_rows=16)
    found = nearest(encoded, encoded, 3, block_rows=25).take_all()
    vectors = Encoder(exported_model, engine="openvino").encode(texts)
    scores, _ = semantic_search(vectors, vectors, 3)
    assert sorted(row["query"] for row in found) == list(range(120))
    for row in found:
        assert row["scores"] == pytest.approx(scores[row["query"]].tolist(), abs=1e-5)
        assert row["scores"] == pytest.approx((vectors[row["ids"]] @ vectors[row["query"]]).tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("queries", "vectors", "error", "message"),
    [
        (table(FINE).slice(0, 0), table(FINE), InputError, "queries: the dataset is empty"),
        (table(FINE), table(FINE).slice(0, 0), InputError, "vectors: the dataset is empty"),
        (table(FINE), pa.table({"id": [1]}), ConfigurationError, "vectors: no column 'vector'"),
        (table(FINE), table([[1, 2, 3]]), InputError, "^queries have 2 numbers, vectors have 3"),
        (table([[1, float("inf")]]), table(FINE), InputError, "^queries: the vector of 'v0' is not finite"),
        (table(FINE), table(FINE, ["x", "x"]), InputError, "^vectors: the id 'x' comes twice"),
    ],
)
def test_errors_say_why(cluster, queries, vectors, error, message):
    with pytest.raises(error, match=message):
        nearest(cluster.data.from_arrow(queries), cluster.data.from_arrow(cut(vectors, [1])), block_rows=1)


def test_an_error_of_an_earlier_step_is_told(cluster):
    def fails(batch):
        raise ValueError("a step of the user's")

    from twinvec.errors import EngineError

    broken = cluster.data.from_arrow(table(FINE)).map_batches(fails)
    with pytest.raises(EngineError, match="a step of the user's"):
        nearest(broken, broken)
