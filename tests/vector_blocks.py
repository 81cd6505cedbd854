"""Blocks of vectors, and the exact answer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from twinvec_ray.encoding import vector_array


def table(vectors, ids=None, **columns):
    """A block with ids and vectors."""
    ids = [f"v{row}" for row in range(len(vectors))] if ids is None else ids
    return pa.table({"id": ids, "vector": vector_array(np.asarray(vectors, dtype=np.float32)), **columns})


def cut(whole, sizes):
    """The blocks of a table: of these sizes, and the rest."""
    ends = [0, *np.minimum(np.cumsum(sizes), whole.num_rows).astype(int).tolist(), whole.num_rows]
    return [whole.slice(start, end - start) for start, end in pairwise(ends) if end > start]


def in_order(queries_QD, vectors_ND, ids, limit):
    """The exact answer: for each query, ids and scores by score, then by id."""
    scores_QN = (queries_QD.astype(np.float64) @ vectors_ND.astype(np.float64).T).astype(np.float32)
    places = np.argsort(np.argsort(np.array(ids, dtype=object)))
    best = [np.lexsort((places, -scores))[:limit] for scores in scores_QN]
    return [([ids[row] for row in rows], scores[rows].tolist()) for rows, scores in zip(best, scores_QN, strict=True)]


def answers(rows):
    """Query -> ids and scores."""
    return {row["query"]: (row["ids"], row["scores"]) for row in rows}


def small_numbers(rows, dim=4, seed=0):
    """Vectors of -1, 0 and 1, so that many products are equal, and none is rounded."""
    return np.random.default_rng(seed).integers(-1, 2, (rows, dim)).astype(np.float32)
