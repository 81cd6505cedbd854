"""What is really served: collections as they answer, and vectors kept in fewer bytes."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec import MemoryIndex
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import evaluate_ir
from twinvec.evaluation.serving import (
    _searched_bytes,
    evaluate_collection,
    evaluate_forms,
    evaluate_indexes,
    evaluate_served,
    latencies,
)
from twinvec.retrieval.documents import Document
from twinvec_qdrant import Collection
from words import WordEncoder

FAST = {"resamples": 50}


class Words(WordEncoder):
    """With the switch for a progress bar that the memory index turns."""

    def encode_document(self, texts, *, progress=False):
        return super().encode_document(texts)


@pytest.fixture
def small(beir):
    return load_beir(beir)


@pytest.fixture
def collection(tmp_path, small):
    with Collection.open("small", tmp_path / "store", encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest(small.documents)
        yield opened


@pytest.mark.parametrize("mode", ["dense", "hybrid", "sparse"])
def test_a_collection_answers_as_the_exact_index(collection, small, mode):
    result = evaluate_collection(collection, small, mode=mode, **FAST)
    index = MemoryIndex(Words(), small.documents)
    expected, seconds = evaluate_served(index, small, mode=mode, **FAST)
    assert expected.figures.items() <= result.figures.items()
    assert len(seconds) == len(small.queries)
    assert result.figures["neighbours@10"] == 100
    vector, edges = 4 * collection.encoder.dim, 2 * 16 * 4
    assert result.figures["bytes"] == (0 if mode == "sparse" else vector), "there is no graph"
    if mode == "dense":
        collection.reindex()
        assert evaluate_collection(collection, small, **FAST).figures["bytes"] == vector + edges
    assert 0 < result.figures["ms_p50"] <= result.figures["ms_p95"] <= result.figures["ms_p99"]


def test_a_search_reads_the_vectors_that_the_index_lacks():
    info = {"dim": 64, "index": {"quantization": "int8", "m": 16}, "points": 400}
    assert [_searched_bytes({**info, "indexed": indexed}) for indexed in (0, 100, 400)] == [256, 240, 64 + 128]


def test_neighbours_that_an_index_misses_are_counted(collection, small):
    class Forgetful:
        """Finds the even half of what there is."""

        encoder = collection.encoder
        search = collection.search
        info = collection.info

        @staticmethod
        def search_vector(vector, limit=10, *, exact=False, space=None):
            assert space == collection.encoder.space, "the handle may have another encoder than the collection"
            hits = collection.search_vector(vector, limit, exact=True)
            return hits if exact else hits[::2]

    result = evaluate_collection(Forgetful(), small, **FAST)
    assert result.figures["neighbours@10"] == pytest.approx(100 * 3 / 5)


def test_a_collection_of_other_documents_is_refused(tmp_path, small):
    with Collection.open("other", tmp_path / "store", encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([("x", "nothing of the kind")])
        with pytest.raises(InputError, match="small: the collection finds none of its documents"):
            evaluate_collection(opened, small, **FAST)


@pytest.mark.slow
def test_indexes_are_compared_and_the_own_one_is_put_back(collection, small):
    before = collection.info()["index"]
    indexes = {"plain": {"quantization": "none"}, "signs, 8 edges": {"quantization": "binary", "m": 8}}
    kept = evaluate_indexes(collection, small, indexes=indexes, **FAST)
    dim = collection.encoder.dim
    assert [(each.form, each.bytes) for each in kept] == [
        ("plain", 4 * dim + 128),
        ("signs, 8 edges", -(-dim // 8) + 64),
    ]
    assert kept[0].figures["neighbours@10"] == 100
    assert all(each.figures["ms_p50"] > 0 for each in kept)
    assert collection.info()["index"] == before


def test_the_own_index_is_put_back_when_measuring_fails(collection, small):
    before = collection.info()["index"]
    with pytest.raises(ConfigurationError):
        evaluate_indexes(collection, small, indexes={"signs": {"quantization": "binary"}}, measures=["auc@1"], **FAST)
    assert collection.info()["index"] == before


def test_latencies_are_percentiles_in_milliseconds():
    found = latencies(np.arange(1, 101, dtype=np.float32) / 1000)
    assert found == pytest.approx({"ms_p50": 50.5, "ms_p95": 95.05, "ms_p99": 99.01})


@pytest.fixture
def cloud(table_model):
    """Documents at random on a sphere; each query lies near one of them."""
    random = np.random.default_rng(5)
    points = random.normal(size=(400, 32))
    vectors = {f"d{row}": point for row, point in enumerate(points)}
    vectors |= {f"q{row}": points[row] + 0.5 * random.normal(size=32) for row in range(60)}
    documents = [Document(f"d{row}", f"d{row}") for row in range(400)]
    queries = {f"q{row}": f"q{row}" for row in range(60)}
    return table_model(vectors), BeirSet("cloud", documents, queries, {f"q{row}": {f"d{row}": 1} for row in range(60)})


def test_forms_trade_quality_for_bytes(cloud):
    model, data = cloud
    kept = {each.form: each for each in evaluate_forms(model, data, **FAST)}
    assert {form: each.bytes for form, each in kept.items()} == {
        "float32": 128,
        "float32, 16 dimensions": 64,
        "float16": 64,
        "float32, 8 dimensions": 32,
        "int8": 32,
        "int8, 16 dimensions": 16,
        "binary": 4,
    }
    exact = evaluate_ir(model, data, **FAST)
    assert kept["float32"].figures["ndcg@10"] == pytest.approx(exact.figures["ndcg@10"])
    assert kept["float32"].neighbours == 100
    assert kept["float16"].neighbours >= kept["int8"].neighbours > 95
    assert 30 < kept["binary"].neighbours < kept["int8"].neighbours
    assert kept["float32, 8 dimensions"].neighbours < kept["float32, 16 dimensions"].neighbours < 90
    assert kept["binary"].figures["bytes"] == 4
