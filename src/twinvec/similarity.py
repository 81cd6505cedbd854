"""Similarity of vectors from any model: exact search, the most similar pairs, and clusters.

Search, pairs and density clustering work in blocks of bounded memory; scikit-learn computes the other clusterings.
Legend: N vectors, Q queries, P pairs, D numbers in a vector.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray, FloatsOfAnySize, IntArray, IntsOfAnySize, largest, unit, without_direction
from twinvec.errors import ConfigurationError, InputError
from twinvec.support.checks import check_choice, integer, number
from twinvec.support.extras import import_extra

Measure = Literal["cosine", "dot"]
ClusteringMethod = Literal["kmeans", "agglomerative", "density"]

_BLOCK_SCORES = 1 << 24  # scores held at a time: 64 MB
_TILE = 2048  # rows and columns of a block of compared pairs: 16 MB
_SEED = 0


def semantic_search(
    queries: FloatsOfAnySize, corpus: FloatsOfAnySize, limit: int = 10, *, measure: Measure = "cosine"
) -> tuple[FloatArray, IntArray]:
    """Find the nearest vectors of ``corpus`` for each query, by exact search.

    Args:
        queries: Shape (Q, D).
        corpus: Shape (N, D).
        limit: Largest number of vectors for each query.
        measure: The similarity; the cosine with a zero vector is 0.

    Returns:
        Scores and row numbers, both (Q, min(limit, N)), best first; equal scores in the order of rows.

    Raises:
        ConfigurationError: the limit is below 1, or the measure is unknown.
        InputError: an array is not two-dimensional and finite, or the two differ in their columns.
    """
    integer(limit, "limit", least=1)
    check_choice(measure, Measure, "measure")
    queries_QD, corpus_ND = _table(queries, "queries"), _table(corpus, "corpus")
    if queries_QD.shape[1] != corpus_ND.shape[1] and len(queries_QD) and len(corpus_ND):
        raise InputError(
            f"queries have {queries_QD.shape[1]} columns, the corpus has {corpus_ND.shape[1]}; encode both by one model"
        )
    if measure == "cosine":
        queries_QD, corpus_ND = unit(queries_QD), unit(corpus_ND)
    kept = min(limit, len(corpus_ND))
    scores = np.empty((len(queries_QD), kept), dtype=np.float32)
    rows = np.empty((len(queries_QD), kept), dtype=np.int64)
    if not kept:
        return scores, rows
    block = max(1, _BLOCK_SCORES // len(corpus_ND))
    for start in range(0, len(queries_QD), block):
        scores_BN = queries_QD[start : start + block] @ corpus_ND.T
        for offset, scores_N in enumerate(scores_BN):
            best = largest(scores_N, kept)
            rows[start + offset], scores[start + offset] = best, scores_N[best]
    return scores, rows


def cosines(first: FloatsOfAnySize, second: FloatsOfAnySize, dim: int) -> FloatArray:
    """``Encoder.similarity`` for vectors of ``dim`` numbers; the cosine with a zero vector is 0."""
    first_ND, second_MD = (_vectors(each, name, dim) for each, name in ((first, "first"), (second, "second")))
    products: FloatArray = unit(first_ND) @ unit(second_MD).T
    return products.clip(-1, 1)


def _vectors(given: Any, name: str, dim: int) -> FloatArray:
    values = _numbers(given, name)
    table = _table(np.atleast_2d(values) if values.size else values.reshape(0, dim), name)
    if table.shape[1] != dim:
        raise InputError(f"{name}: vectors of {table.shape[1]} numbers, expected {dim}")
    return table


def most_similar_pairs(
    vectors: FloatsOfAnySize, limit: int = 100, *, threshold: float | None = None
) -> tuple[FloatArray, IntArray]:
    """Find the pairs of different rows with the highest cosines, by exact search over all N (N - 1) / 2 pairs.

    Args:
        vectors: Shape (N, D).
        limit: Largest number of pairs.
        threshold: Smallest cosine of a pair.

    Returns:
        Cosines (P,), best first, and the rows (P, 2) with the smaller number first; equal cosines in the order of rows.

    Raises:
        ConfigurationError: the limit is below 1, or the threshold is not a cosine.
        InputError: ``vectors`` is not two-dimensional and finite.
    """
    integer(limit, "limit", least=1)
    check_cosine(threshold)
    vectors_ND = unit(_table(vectors, "vectors"))
    best = np.empty(0, dtype=np.float32)
    pairs = np.empty((0, 2), dtype=np.int64)
    floor = -np.inf if threshold is None else threshold
    for first, second, scores_AB in _upper_tiles(vectors_ND):
        a, b = np.nonzero(scores_AB >= floor)
        if len(a) > limit:  # drops pairs that cannot be among the best, before the sort
            found = scores_AB[a, b]
            keep = found >= np.partition(found, -limit)[-limit]
            a, b = a[keep], b[keep]
        best = np.concatenate([best, scores_AB[a, b]])
        pairs = np.concatenate([pairs, np.stack([a + first, b + second], axis=1)])
        order = np.lexsort((pairs[:, 1], pairs[:, 0], -best))[:limit]
        best, pairs = best[order], pairs[order]
        if len(best) == limit:
            floor = max(floor, float(best[-1]))
    return best, pairs


def cluster(
    vectors: FloatsOfAnySize,
    method: ClusteringMethod = "kmeans",
    *,
    clusters: int | None = None,
    threshold: float | None = None,
    min_size: int = 2,
) -> IntArray:
    """Group similar vectors, by cosine.

    Args:
        vectors: Shape (N, D).
        method: ``kmeans`` takes ``clusters``. ``agglomerative`` (average linkage) takes ``clusters``, or the cosine
            ``threshold`` below which groups are not joined. ``density`` (DBSCAN, Ester et al. 1996) takes
            ``threshold`` and ``min_size``: a chain of vectors that are within ``threshold`` of at least
            ``min_size`` vectors each, themselves included, is a cluster.
        clusters: Number of clusters.
        threshold: Smallest cosine; see ``method``.
        min_size: Number of vectors for ``density``; see ``method``.

    Returns:
        Labels (N,): 0 for the largest cluster, 1 for the next, and so on; -1 for vectors far from all clusters.

    Raises:
        ConfigurationError: the method is unknown, lacks an argument or does not take one, or ``clusters`` exceeds N.
        InputError: ``vectors`` is not two-dimensional and finite, or holds a zero vector for ``agglomerative``.
    """
    vectors_ND = unit(_table(vectors, "vectors"))
    count = len(vectors_ND)
    check_clustering(method, clusters, threshold, count)
    integer(min_size, "min_size", least=1)
    zeros = without_direction(vectors_ND)
    if method == "agglomerative" and zeros.size:
        raise InputError(
            f"vectors: row {zeros[0]} is a zero vector, which has no cosine; agglomerative needs one: leave it out"
        )
    if method == "density":
        return _by_size(_dense_groups(vectors_ND, float(threshold or 0), min_size))
    if count < 2:
        return np.zeros(count, dtype=np.int64)
    sklearn = import_extra("sklearn.cluster", "eval", "clustering")
    if method == "kmeans":
        model = sklearn.KMeans(n_clusters=clusters, n_init=4, random_state=_SEED)
    else:
        distance = None if threshold is None else 1 - threshold
        model = sklearn.AgglomerativeClustering(
            n_clusters=clusters, distance_threshold=distance, metric="cosine", linkage="average"
        )
    return _by_size(np.asarray(model.fit_predict(vectors_ND), dtype=np.int64))


def medoids(vectors: FloatsOfAnySize, labels: IntsOfAnySize) -> dict[int, int]:
    """Return the row nearest to the mean of each cluster, by cosine: label -> row."""
    vectors_ND = unit(_table(vectors, "vectors"))
    labels_N = np.asarray(labels)
    if labels_N.shape != vectors_ND.shape[:1] or labels_N.dtype.kind not in "iu":
        raise InputError(f"labels: expected {len(vectors_ND)} whole numbers, got {labels!r}")
    found = {}
    for label in sorted(set(labels_N.tolist()) - {-1}):
        rows = np.flatnonzero(labels_N == label)
        found[label] = int(rows[np.argmax(vectors_ND[rows] @ vectors_ND[rows].mean(axis=0))])
    return found


def check_clustering(
    method: ClusteringMethod, clusters: int | None, threshold: float | None, count: int | None = None
) -> None:
    """Refuse invalid settings of ``cluster`` (ConfigurationError) and a missing scikit-learn (MissingExtraError).

    ``count`` is the number of vectors, if it is known.
    """
    check_choice(method, ClusteringMethod, "method")
    if method == "kmeans" and (clusters is None or threshold is not None):
        raise ConfigurationError("kmeans needs the number of clusters, such as 20, and takes no threshold")
    if method == "density" and (threshold is None or clusters is not None):
        raise ConfigurationError("density needs a threshold, such as 0.7, and finds the number of clusters itself")
    if method == "agglomerative" and (clusters is None) == (threshold is None):
        raise ConfigurationError(
            "agglomerative needs either the number of clusters or a threshold, such as 0.7, and not both"
        )
    if threshold is not None and not -1 <= number(threshold, "threshold") < 1:
        raise ConfigurationError(f"threshold must be a cosine from -1 to below 1, got {threshold}")
    if clusters is not None:
        integer(clusters, "clusters", least=1)
        if count is not None and clusters > max(count, 1):
            raise ConfigurationError(f"clusters must lie between 1 and {count}, the number of vectors, got {clusters}")
    import_extra("sklearn.cluster", "eval", "clustering")


def check_cosine(threshold: float | None) -> None:
    """Raise ConfigurationError unless a threshold is a number from -1 to 1, or None."""
    if threshold is not None and not -1 <= number(threshold, "threshold") <= 1:
        raise ConfigurationError(f"threshold must be a cosine from -1 to 1, got {threshold}")


def _upper_tiles(vectors_ND: FloatArray) -> Iterator[tuple[int, int, FloatArray]]:
    """Yield the cosines of all pairs, tile by tile; NaN on and below the diagonal."""
    count = len(vectors_ND)
    for first in range(0, count, _TILE):
        for second in range(first, count, _TILE):
            scores_AB = vectors_ND[first : first + _TILE] @ vectors_ND[second : second + _TILE].T
            if first == second:
                scores_AB[np.tril_indices(len(scores_AB))] = np.nan  # NaN is below every threshold
            yield first, second, scores_AB


def _dense_groups(vectors_ND: FloatArray, threshold: float, min_size: int) -> IntArray:
    """Return the number of the first core vector in each vector's cluster; -1 for none. DBSCAN in tiles.

    A core vector has at least ``min_size`` vectors within ``threshold``, itself included. The first pass finds the core
    vectors, the second joins near ones to clusters, and the third assigns the other vectors. The results equal
    scikit-learn's.
    """
    near_N = np.ones(len(vectors_ND), dtype=np.int64)
    for first, second, scores_AB in _upper_tiles(vectors_ND):
        is_near_AB = scores_AB >= threshold
        near_N[first : first + _TILE] += is_near_AB.sum(axis=1)
        near_N[second : second + _TILE] += is_near_AB.sum(axis=0)
    is_core_N = near_N >= min_size
    groups_N: IntArray = np.arange(len(vectors_ND))
    for first, second, scores_AB in _upper_tiles(vectors_ND):
        cores_A, cores_B = (is_core_N[start : start + _TILE] for start in (first, second))
        a, b = np.nonzero((scores_AB >= threshold) & cores_A[:, None] & cores_B)
        groups_N = _joined(groups_N, np.stack([a + first, b + second], axis=1))
    none = len(vectors_ND)
    names_N: IntArray = np.where(is_core_N, groups_N, none)
    found_N = names_N.copy()
    for first, second, scores_AB in _upper_tiles(vectors_ND):
        rows, columns = slice(first, first + _TILE), slice(second, second + _TILE)
        is_near_AB = scores_AB >= threshold
        reached_A = np.where(is_near_AB, names_N[columns], none).min(axis=1)
        reached_B = np.where(is_near_AB, names_N[rows, None], none).min(axis=0)
        found_N[rows] = np.minimum(found_N[rows], reached_A)
        found_N[columns] = np.minimum(found_N[columns], reached_B)
    found_N[found_N == none] = -1
    return found_N


def _joined(groups_N: IntArray, pairs_P2: IntArray) -> IntArray:
    """Join the groups of each pair of rows; return each row's group, named by the group's first row."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    joined_P2 = groups_N[pairs_P2]
    joined_P2 = joined_P2[joined_P2[:, 0] != joined_P2[:, 1]]
    if not len(joined_P2):
        return groups_N
    names, places_P2 = np.unique(joined_P2, return_inverse=True)
    edges = tuple(places_P2.reshape(-1, 2).T)
    graph = coo_array((np.ones(len(joined_P2), dtype=bool), edges), shape=(len(names), len(names)))
    parts = connected_components(graph, directed=False)[1]
    firsts = names[np.unique(parts, return_index=True)[1]]  # the first name of a part is its smallest
    renamed_N: IntArray = np.arange(len(groups_N))
    renamed_N[names] = firsts[parts]
    return renamed_N[groups_N]


def _numbers(given: Any, name: str) -> npt.NDArray[Any]:
    """Return an array of numbers; refuse texts, and codes of ``Encoder.encode(storage=...)``, which are no vectors."""
    try:
        values = np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise InputError(f"{name}: expected an array of numbers: {error}") from None
    if values.dtype.kind == "O" and values.ndim and not any(isinstance(each, str | bytes) for each in values.flat):
        with suppress(TypeError, ValueError, OverflowError):
            rows = np.asarray(values.tolist())  # a column of a table holds one array for each row
            if rows.dtype.kind not in "US":
                return rows.astype(np.float32)
    if values.dtype.kind in "USO":
        kind = type(given).__name__
        if not isinstance(given, str | bytes | list | tuple):
            kind += f" of dtype {values.dtype}"
        raise InputError(f"{name}: expected an array of numbers, got a {kind}; encode texts first")
    if values.dtype.kind == "c":
        raise InputError(f"{name}: expected real numbers, got {values.dtype}")
    if values.dtype in (np.int8, np.uint8):
        raise InputError(
            f"{name}: expected float vectors, got {values.dtype}; Encoder.restore makes vectors of int8 "
            "codes; binary codes have no vectors, so encode the texts without storage"
        )
    return values


def _table(vectors: Any, name: str) -> FloatArray:
    values = _numbers(vectors, name)
    try:
        table: FloatArray = values.astype(np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: expected an array of numbers: {error}") from None
    if table.ndim != 2:
        raise InputError(f"{name}: expected an array of shape (n, dim), got {table.shape}")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=1))
    if bad.size:
        raise InputError(f"{name}: row {bad[0]} is not finite")
    return table


def _by_size(labels: IntArray) -> IntArray:
    """Renumber clusters by size, clusters of equal size by their first member."""
    names, firsts, sizes = np.unique(labels[labels >= 0], return_index=True, return_counts=True)
    renamed = {int(names[old]): new for new, old in enumerate(np.lexsort((firsts, -sizes)))}
    return np.array([renamed.get(int(label), -1) for label in labels], dtype=np.int64)
