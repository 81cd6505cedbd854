"""Exact search, the most similar pairs and clusters, against plain loops over all pairs."""

from __future__ import annotations

import tracemalloc
from decimal import Decimal

import numpy as np
import pandas
import polars
import pytest
from sklearn.cluster import DBSCAN

from twinvec import similarity
from twinvec.errors import ConfigurationError, InputError
from twinvec.similarity import cluster, medoids, most_similar_pairs, semantic_search


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks so small that every test crosses their borders."""
    monkeypatch.setattr(similarity, "_BLOCK_SCORES", 64)
    monkeypatch.setattr(similarity, "_TILE", 7)


def vectors(count, dim=8, seed=0):
    return np.random.default_rng(seed).normal(size=(count, dim)).astype(np.float32)


def unit(table):
    return table / np.linalg.norm(table, axis=1, keepdims=True)


@pytest.mark.parametrize("measure", ["cosine", "dot"])
def test_search_is_exact(small_blocks, measure):
    queries, corpus = vectors(9), vectors(50, seed=1)
    scores, rows = semantic_search(queries, corpus, 5, measure=measure)
    exact = unit(queries) @ unit(corpus).T if measure == "cosine" else queries @ corpus.T
    assert rows.shape == (9, 5)
    assert rows.tolist() == np.argsort(-exact, axis=1)[:, :5].tolist()
    np.testing.assert_allclose(scores, np.take_along_axis(exact, rows, 1), atol=1e-5)


def test_equal_scores_come_in_the_order_of_rows(small_blocks):
    corpus = np.tile(np.array([[1, 0], [0, 1]], dtype=np.float32), (10, 1))
    _, rows = semantic_search(np.array([[1.0, 0]]), corpus, 4)
    assert rows.tolist() == [[0, 2, 4, 6]]


def test_search_gives_all_there_is():
    scores, rows = semantic_search(vectors(2), vectors(3), 10)
    assert scores.shape == rows.shape == (2, 3)
    assert semantic_search(vectors(2), np.empty((0, 8)), 10)[0].shape == (2, 0)
    assert semantic_search(np.empty((0, 8)), vectors(3), 2)[1].shape == (0, 2)


def test_a_zero_vector_is_near_to_nothing():
    corpus = np.array([[0, 0], [1, 1], [-1, -1]], dtype=np.float32)
    scores, rows = semantic_search(np.array([[1.0, 1.0]]), corpus, 3)
    assert rows.tolist() == [[1, 0, 2]]
    assert scores.tolist()[0] == pytest.approx([1, 0, -1])


def brute_force(table, limit, threshold=-np.inf):
    cosines = unit(table) @ unit(table).T
    pairs = [(a, b) for a in range(len(table)) for b in range(a + 1, len(table)) if cosines[a, b] >= threshold]
    return sorted(pairs, key=lambda pair: (-cosines[pair], pair))[:limit]


@pytest.mark.parametrize("limit", [1, 3, 40, 10_000])
def test_the_most_similar_pairs_are_exact(small_blocks, limit):
    table = vectors(45)
    scores, pairs = most_similar_pairs(table, limit)
    assert [tuple(pair) for pair in pairs.tolist()] == brute_force(table, limit)
    assert len(scores) == min(limit, 45 * 44 // 2)
    np.testing.assert_allclose(scores, (unit(table)[pairs[:, 0]] * unit(table)[pairs[:, 1]]).sum(1), atol=1e-5)


def test_a_threshold_leaves_out_pairs(small_blocks):
    table = vectors(45)
    scores, pairs = most_similar_pairs(table, 10_000, threshold=0.4)
    assert [tuple(pair) for pair in pairs.tolist()] == brute_force(table, 10_000, 0.4)
    assert 0 < len(scores) < 200
    assert scores.min() >= 0.4


def test_copies_come_once_each_and_never_with_themselves(small_blocks):
    table = np.ones((9, 4), dtype=np.float32)
    scores, pairs = most_similar_pairs(table, 100)
    assert [tuple(pair) for pair in pairs.tolist()] == [(a, b) for a in range(9) for b in range(a + 1, 9)]
    assert scores == pytest.approx(np.ones(36))
    assert most_similar_pairs(table, 3)[1].tolist() == [[0, 1], [0, 2], [0, 3]]


@pytest.mark.parametrize("threshold", [1.5, -2, float("nan")])
def test_a_threshold_is_a_cosine(threshold):
    with pytest.raises(ConfigurationError, match="threshold must be a cosine from -1 to 1"):
        most_similar_pairs(vectors(4), threshold=threshold)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_vectors_have_no_pairs(count):
    scores, pairs = most_similar_pairs(vectors(count), 5)
    assert (scores.shape, pairs.shape) == ((0,), (0, 2))


def blobs():
    """Three groups of 12, 8 and 5 around axes, and two strays."""
    random = np.random.default_rng(2)
    groups = [np.eye(6)[axis] + 0.05 * random.normal(size=(size, 6)) for axis, size in ((2, 5), (0, 12), (1, 8))]
    return np.concatenate([*groups, -np.eye(6)[[3, 4]]]).astype(np.float32)


EXPECTED = [2] * 5 + [0] * 12 + [1] * 8


@pytest.mark.parametrize(
    ("method", "options", "strays"),
    [
        ("kmeans", {"clusters": 5}, {3, 4}),
        ("agglomerative", {"clusters": 5}, {3, 4}),
        ("agglomerative", {"threshold": 0.7}, {3, 4}),
        ("density", {"threshold": 0.8, "min_size": 3}, {-1}),
    ],
)
def test_groups_are_found_and_numbered_by_size(method, options, strays):
    labels = cluster(blobs(), method, **options)
    assert labels[:25].tolist() == EXPECTED
    assert set(labels[25:].tolist()) == strays


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("min_size", [1, 2, 4])
def test_density_gives_the_clusters_of_scikit_learn(small_blocks, threshold, min_size):
    table = vectors(90, dim=5)
    theirs = DBSCAN(eps=1 - threshold, min_samples=min_size, metric="cosine").fit_predict(table)
    assert cluster(table, "density", threshold=threshold, min_size=min_size).tolist() == by_size(theirs)


def by_size(labels):
    """Renumber clusters by size, clusters of equal size by their first member."""
    order = sorted(set(labels.tolist()) - {-1}, key=lambda each: (-(labels == each).sum(), labels.tolist().index(each)))
    return [-1 if each == -1 else order.index(each) for each in labels.tolist()]


def test_density_holds_no_more_for_many_near_pairs(monkeypatch):
    monkeypatch.setattr(similarity, "_TILE", 128)
    table = 1 + 0.01 * vectors(1500)
    cluster(table[:2], "density", threshold=0.9)  # imports
    tracemalloc.start()
    try:
        assert not cluster(table, "density", threshold=0.9).any()
        assert tracemalloc.get_traced_memory()[1] < 5_000_000, "the numbers of all pairs take 18 MB"
    finally:
        tracemalloc.stop()


def test_density_holds_no_more_for_vectors_near_many_cores(monkeypatch):
    """Half of the vectors are cores. The others are near all cores, but too few for being cores themselves."""
    monkeypatch.setattr(similarity, "_TILE", 128)
    table = np.zeros((1200, 64), dtype=np.float32)
    table[:, 0] = 1
    table[600:, 1:] = unit(vectors(600, dim=63))
    cluster(table[:2], "density", threshold=0.7)  # imports
    tracemalloc.start()
    try:
        assert not cluster(table, "density", threshold=0.7, min_size=900).any()
        assert tracemalloc.get_traced_memory()[1] < 3_000_000, "the numbers of 600 x 600 pairs take 6 MB"
    finally:
        tracemalloc.stop()


def test_clusters_do_not_depend_on_length():
    table = blobs()
    scaled = table * np.linspace(1, 100, len(table))[:, None]
    assert cluster(scaled, "kmeans", clusters=5).tolist() == cluster(table, "kmeans", clusters=5).tolist()


def test_a_medoid_is_the_member_nearest_to_the_mean():
    table = np.array([[1, 0.5], [1, 0.1], [1, -0.5], [-1, 0], [0, 5]], dtype=np.float32)
    assert medoids(table, np.array([0, 0, 0, 1, -1])) == {0: 1, 1: 3}


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_vectors_to_cluster(count):
    assert cluster(vectors(count), "density", threshold=0.5).tolist() == [-1] * count, "min_size is 2"
    assert cluster(vectors(count), "density", threshold=0.5, min_size=1).tolist() == [0] * count
    assert cluster(vectors(count), "kmeans", clusters=1).tolist() == [0] * count


@pytest.mark.parametrize(
    ("method", "options", "said"),
    [
        ("spectral", {}, "'spectral' is not one of kmeans, agglomerative, density"),
        ("kmeans", {}, "kmeans needs the number of clusters, such as 20"),
        ("kmeans", {"clusters": 2, "threshold": 0.5}, "such as 20, and takes no threshold"),
        ("density", {}, "density needs a threshold"),
        ("density", {"clusters": 3, "threshold": 0.5}, "finds the number of clusters itself"),
        ("agglomerative", {}, "either the number of clusters or a threshold"),
        ("agglomerative", {"clusters": 2, "threshold": 0.5}, "either the number of clusters or a threshold"),
        ("kmeans", {"clusters": 6}, "between 1 and 5, the number of vectors, got 6"),
        ("kmeans", {"clusters": 2.0}, "clusters must be a whole number, got 2.0"),
        ("kmeans", {"clusters": 0}, "clusters must be at least 1, got 0"),
        ("density", {"threshold": 0.5, "min_size": 0}, "min_size must be at least 1, got 0"),
        ("density", {"threshold": 1.0}, "from -1 to below 1, got 1.0"),
        ("density", {"threshold": float("nan")}, "from -1 to below 1, got nan"),
    ],
)
def test_settings_that_cannot_work_are_refused(method, options, said):
    with pytest.raises(ConfigurationError, match=said):
        cluster(vectors(5), method, **options)


def test_a_zero_vector_has_no_place_in_a_hierarchy():
    table = vectors(5)
    table[3] = 0
    with pytest.raises(InputError, match="row 3 is a zero vector, which has no cosine"):
        cluster(table, "agglomerative", threshold=0.5)
    assert len(cluster(table, "density", threshold=0.5)) == len(cluster(table, "kmeans", clusters=2)) == 5


def test_arrays_that_are_no_tables_are_refused():
    table = vectors(4)
    table[2, 3] = np.nan
    for call in (lambda: most_similar_pairs(table), lambda: semantic_search(vectors(2), table)):
        with pytest.raises(InputError, match="row 2 is not finite"):
            call()
    with pytest.raises(InputError, match=r"queries: expected an array of shape \(n, dim\), got \(8,\)"):
        semantic_search(np.ones(8), vectors(3))
    with pytest.raises(InputError, match="queries have 7 columns, the corpus has 8"):
        semantic_search(np.ones((1, 7)), vectors(3))
    for call in (lambda: most_similar_pairs(vectors(3), 0), lambda: semantic_search(vectors(1), vectors(3), 0)):
        with pytest.raises(ConfigurationError, match="at least 1, got 0"):
            call()
    with pytest.raises(ConfigurationError, match="'l2' is not one of cosine, dot"):
        semantic_search(vectors(1), vectors(3), measure="l2")


@pytest.mark.slow
def test_commands_show_the_time_of_a_long_comparison_on_a_terminal(twinvec, tiny_model, tmp_path, monkeypatch):
    texts = tmp_path / "texts.txt"
    texts.write_text("tea\ngreen tea\nblack tea\nrain\n")
    model = ("--model", tiny_model("distilbert"))
    assert twinvec("pairs", texts, *model).err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "Comparing" in twinvec("pairs", texts, *model).err
    assert "Clustering" in twinvec("cluster", texts, *model).err


def test_numbers_that_are_objects_are_vectors():
    expected = semantic_search(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), 1)
    for given in (
        np.eye(2).astype(object),
        [[Decimal(1), Decimal(0)], [0, Decimal(1)]],
        pandas.DataFrame({"a": [1, 0], "b": [0.0, 1.0]}, dtype=object),
        [np.array([1, 0], dtype=object), np.array([0, 1.0], dtype=object)],
    ):
        scores, rows = semantic_search(given, np.eye(2), 1)
        np.testing.assert_array_equal(scores, expected[0])
        np.testing.assert_array_equal(rows, expected[1])
        assert most_similar_pairs(given)[0].tolist() == [0]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (np.array(["a fox", "4711"], dtype=object), "a ndarray of dtype object"),
        (np.array([["1", "2"]], dtype=object), "a ndarray of dtype object"),
        (pandas.Series([{}, []]), "a Series of dtype object"),
        (pandas.Series([["1"], ["2"]]), "a Series of dtype object"),
        ([[10**400]], "a list"),
        ([["1", "2"]], "a list"),
    ],
)
def test_objects_that_are_no_numbers(given, kind):
    with pytest.raises(InputError, match=f"vectors: expected an array of numbers, got {kind}; encode texts first"):
        most_similar_pairs(given)


@pytest.mark.parametrize("of", [list, np.ndarray.tolist], ids=["arrays", "lists"])
def test_a_column_of_a_table_may_hold_the_vectors(of):
    rows = vectors(6)
    for column in (pandas.Series(of(rows)), polars.Series(of(rows))):
        scores, pairs = most_similar_pairs(column, 3)
        assert pairs.tolist() == most_similar_pairs(rows, 3)[1].tolist()
    assert scores.shape == (3,)


def test_complex_numbers_are_refused():
    with pytest.raises(InputError, match="vectors: expected real numbers, got complex128"):
        most_similar_pairs(np.fft.fft(np.eye(4)))
