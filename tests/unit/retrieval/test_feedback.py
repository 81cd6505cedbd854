"""Feedback: how a query's vector moves towards its first hits, and what an index in memory then finds."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec import Document, MemoryIndex
from twinvec.errors import ConfigurationError
from twinvec.retrieval.feedback import moved

EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])
VECTORS = {
    "query": [1.0, 0.0, 0.0],
    "first": [0.8, 0.6, 0.0],
    "alike": [0.1, 0.99, 0.0],  # as the first hit, and far from the query
    "other": [0.3, 0.0, 0.95],  # nearer to the query, and unlike its first hit
}


def test_the_query_moves_by_the_mean_of_its_hits():
    found = np.stack([NORTH * 3, EAST * 0.5])  # lengths do not count
    expected = EAST + 0.75 * (EAST + NORTH) / 2
    assert moved(EAST * 7, found) == pytest.approx(expected / np.linalg.norm(expected))
    assert moved(EAST * 7, np.empty((0, 2))) == pytest.approx(EAST)


@pytest.fixture
def index(table):
    return MemoryIndex(table, [Document(name, name) for name in ("first", "alike", "other")])


@pytest.fixture
def table():
    class Table:
        def encode_query(self, texts):
            return np.array([VECTORS[text] for text in texts], dtype=np.float32)

        encode_document = encode_query

    return Table()


@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_what_is_like_the_first_hit_is_found(index, mode):
    assert [hit.id for hit in index.search("query", mode=mode)] == ["first", "other", "alike"]
    found = index.search("query", mode=mode, feedback=1)
    assert [hit.id for hit in found] == ["first", "alike", "other"]
    asked = {hit.id: hit.scores["dense"] for hit in index.search("query", mode="dense")}
    for hit in found:
        assert hit.scores["dense"] == asked[hit.id]
        near = moved(np.array(VECTORS["query"]), np.array([VECTORS["first"]]))
        direction = np.array(VECTORS[hit.id])
        assert hit.scores["feedback"] == pytest.approx(near @ direction / np.linalg.norm(direction), abs=1e-5)
    assert found[0].score == found[0].scores["feedback" if mode == "dense" else "fused"]


def test_a_small_limit_takes_no_first_hits_away(index):
    (alone,) = index.search("query", 1, mode="dense", feedback=3)
    assert alone == index.search("query", 3, mode="dense", feedback=3)[0]


def test_words_alone_do_not_move(index):
    assert index.search("first", mode="sparse", feedback=3) == index.search("first", mode="sparse")


@pytest.mark.parametrize("feedback", [-1, 101, 2.0, True, "3", None])
def test_what_is_no_number_of_hits_is_refused(index, feedback):
    with pytest.raises(ConfigurationError, match="feedback must be a whole number of first hits, from 0 to 100"):
        index.search("query", feedback=feedback)
