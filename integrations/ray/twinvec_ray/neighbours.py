"""Exact nearest neighbours of many queries in many vectors, block by block.

Scores do not depend on the blocks. The last bit of a matrix product depends on the shapes of the matrices, so matrix
products only select candidates. The score of each candidate is then computed alone, in float64. Equal scores are in the
order of ids. Shapes: Q queries, N vectors, D numbers in a vector, K neighbours.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from twinvec.arrays import FloatArray, IntArray, largest, unit
from twinvec.errors import InputError
from twinvec.similarity import Measure
from twinvec.support.checks import check_choice, integer, string
from twinvec_ray.blocks import BLOCK_ROWS, blocks, check_columns, fold
from twinvec_ray.cluster import check_dataset
from twinvec_ray.encoding import vector_array

if TYPE_CHECKING:
    from ray.data import Dataset

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_BLOCK_SCORES = 1 << 24  # scores held at a time: 64 MB
_ROUNDING = 2.0**-22  # four times the rounding error of a float32 number: that of two scores, and a margin


def nearest(
    queries: Dataset,
    vectors: Dataset,
    limit: int = 10,
    *,
    id: str = "id",
    column: str = "vector",
    query_id: str | None = None,
    query_column: str | None = None,
    measure: Measure = "cosine",
    block_rows: int = BLOCK_ROWS,
) -> Dataset:
    """Find the nearest vectors for each query, by exact search; neither dataset needs to fit into memory.

    The search runs when this function is called. Vectors are streamed, and read once. Ray's object store holds the
    queries and their results, so ``queries`` should be the smaller dataset.

    Args:
        queries: Rows with an id and a vector, as ``encode`` makes them. Several rows may have the same id.
        vectors: Rows with a vector and an id, which is a text or an integer.
        limit: Largest number of vectors for each query.
        id: Column of the ids.
        column: Column of the vectors: lists of floating-point numbers.
        query_id: Column of the queries' ids; default: ``id``.
        query_column: Column of the queries' vectors; default: ``column``.
        measure: The similarity; the cosine with a zero vector is 0.
        block_rows: Rows of a block. A task holds one block of each dataset.

    Returns:
        A row for each query, in any order: ``query``, its id; ``ids`` and ``scores``, lists of the nearest vectors,
        best first. Equal scores are in the order of ids.

    Raises:
        ConfigurationError: an argument is invalid, or a column is missing.
        InputError: a dataset is empty; a vector is not finite, too large for float32, or holds codes; vectors differ in
            size; an id is missing, or is neither a text nor a 64-bit integer; an id of ``vectors`` occurs twice in a
            block or among the results of a query (other repeats stay unnoticed); ids of ``vectors`` mix texts and
            numbers.
    """
    import ray.data

    integer(limit, "limit", least=1)
    integer(block_rows, "block_rows", least=1)
    check_choice(measure, Measure, "measure")
    asked = (query_id or id, query_column or column)
    for value, name in ((id, "id"), (column, "column"), (asked[0], "query_id"), (asked[1], "query_column")):
        string(value, name)
    check_dataset(queries, "queries")
    check_dataset(vectors, "vectors")
    prepare = partial(vector_table, what="queries", id=asked[0], column=asked[1], measure=measure)
    held = [(reference, limit) for reference, _ in blocks(queries, "queries", asked, block_rows, prepare)]
    prepare = partial(vector_table, what="vectors", id=id, column=column, measure=measure, distinct=True)
    stream = blocks(vectors, "vectors", (id, column), block_rows, prepare)
    return ray.data.from_arrow_refs(fold(held, stream, compared, merged))


def vector_table(
    batch: pa.Table, what: str, id: str, column: str, measure: Measure, *, distinct: bool = False
) -> pa.Table:
    """Return a block as a table with the columns ``id`` and ``vector``. For cosines, vectors are scaled to length 1.

    Raise InputError and ConfigurationError as ``nearest`` does; ``distinct`` refuses an id that occurs twice.
    """
    check_columns(batch.column_names, (id, column), what)
    ids = as_ids(batch.column(id), f"{what}, column {id!r}")
    if distinct and len(values := pc.value_counts(ids)) < len(ids):
        twice = values.filter(pc.greater(values.field("counts"), 1))[0]["values"]
        raise InputError(f"{what}: the id {twice.as_py()!r} comes twice")
    vectors_ND = as_matrix(batch.column(column), f"{what}, column {column!r}")
    with np.errstate(over="ignore"):
        bad = np.flatnonzero(~np.isfinite(np.linalg.norm(vectors_ND, axis=1)))
    if bad.size:
        raise InputError(f"{what}: the vector of {ids[bad[0]].as_py()!r} is not finite, or too large for float32")
    if measure == "cosine":
        vectors_ND = unit(vectors_ND)
    return pa.table({"id": ids, "vector": vector_array(vectors_ND)})


def as_matrix(values: pa.ChunkedArray, what: str) -> FloatArray:
    """Return a column of vectors as an array, (N, D).

    Raise InputError if the lists differ in size or hold other numbers than floating-point numbers.
    """
    if hasattr(values.chunk(0), "to_numpy_ndarray"):  # a tensor of Ray
        tensor = np.concatenate([chunk.to_numpy_ndarray() for chunk in values.chunks])
        if tensor.ndim != 2:
            raise InputError(f"{what}: expected vectors of one size, got {values.type}")
        _check_numbers(tensor.dtype.kind == "f", tensor.dtype, what)
        return tensor.astype(np.float32, copy=False)
    array = values.combine_chunks()
    if not any(is_list(array.type) for is_list in _LISTS):
        raise InputError(f"{what}: expected lists of numbers, got {array.type}")
    _check_numbers(pa.types.is_floating(array.type.value_type), array.type.value_type, what)
    if array.null_count:
        raise InputError(f"{what}: a row has no vector")
    sizes = pc.unique(pc.list_value_length(array)).to_pylist()
    if len(sizes) != 1 or not sizes[0]:
        raise InputError(f"{what}: vectors of {' and '.join(map(str, sorted(sizes)))} numbers")
    numbers: FloatArray = array.flatten().to_numpy(zero_copy_only=False)
    return numbers.reshape(-1, sizes[0]).astype(np.float32, copy=False)


def _check_numbers(fine: bool, kind: object, what: str) -> None:
    if not fine:
        raise InputError(
            f"{what}: expected floating-point numbers, got {kind}; codes such as those of int8 and binary storage "
            "cannot be compared"
        )


def compared(vectors: pa.Table, queries: pa.Table, limit: int) -> pa.Table:
    """Return the nearest vectors of a block for each query of a block; both blocks are from ``vector_table``."""
    vectors_ND, queries_QD = (as_matrix(table.column("vector"), "vectors") for table in (vectors, queries))
    if vectors_ND.shape[1] != queries_QD.shape[1]:
        raise InputError(f"queries have {queries_QD.shape[1]} numbers, vectors have {vectors_ND.shape[1]}")
    ids = vectors.column("id").combine_chunks()
    ties = _order(ids)
    kept = min(limit, len(ids))
    rows_QK = np.empty((len(queries_QD), kept), dtype=np.int64)
    scores_QK = np.empty((len(queries_QD), kept), dtype=np.float32)
    longest = np.linalg.norm(vectors_ND, axis=1).max()
    error_Q = _ROUNDING * queries_QD.shape[1] * np.linalg.norm(queries_QD, axis=1) * longest
    block = max(1, _BLOCK_SCORES // len(ids))
    for start in range(0, len(queries_QD), block):
        scores_BN = queries_QD[start : start + block] @ vectors_ND.T
        for query, scores_N in enumerate(scores_BN, start):
            likely = np.flatnonzero(scores_N >= np.partition(scores_N, -kept)[-kept] - error_Q[query])
            exact = (vectors_ND[likely].astype(np.float64) * queries_QD[query]).sum(axis=1).astype(np.float32)
            best = largest(exact, kept, ties[likely])
            rows_QK[query], scores_QK[query] = likely[best], exact[best]
    return _rows(queries.column("id"), ids.take(pa.array(rows_QK.ravel())), scores_QK)


def merged(tables: list[pa.Table], limit: int) -> pa.Table:
    """Merge tables with the same queries and different vectors: return the nearest vectors of each query."""
    parts = [table.column("ids").combine_chunks().flatten() for table in tables]
    if len({part.type for part in parts}) > 1:
        raise InputError("vectors: some ids are texts and some are numbers; use one type for all")
    ids = pa.concat_arrays(parts)
    scores = [
        table.column("scores").combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1) for table in tables
    ]
    scores_QK = np.hstack(scores)
    starts = np.cumsum([0, *(each.size for each in scores[:-1])])
    rows_QK = np.hstack(
        [start + np.arange(each.size).reshape(each.shape) for start, each in zip(starts, scores, strict=True)]
    )
    ties_QK = _order(ids)[rows_QK]
    best_QK = np.lexsort((ties_QK, -scores_QK), axis=1)[:, :limit]
    rows_QK, scores_QK = (np.take_along_axis(each, best_QK, axis=1) for each in (rows_QK, scores_QK))
    ties_QK = np.sort(np.take_along_axis(ties_QK, best_QK, axis=1), axis=1)
    repeats_Q = (ties_QK[:, 1:] == ties_QK[:, :-1]).any(axis=1)
    if repeats_Q.any():
        query = int(repeats_Q.argmax())
        found = ids.take(pa.array(rows_QK[query])).to_pylist()
        twice = next(each for each in found if found.count(each) > 1)
        raise InputError(f"vectors: the id {twice!r} comes twice")
    return _rows(tables[0].column("query"), ids.take(pa.array(rows_QK.ravel())), scores_QK)


def _rows(queries: Any, ids: pa.Array, scores_QK: FloatArray) -> pa.Table:
    """Return the table of ``nearest``; ``ids`` has one id for each score, row by row."""
    ends = pa.array(np.arange(len(scores_QK) + 1, dtype=np.int64) * scores_QK.shape[1])
    return pa.table(
        {
            "query": queries,
            "ids": pa.LargeListArray.from_arrays(ends, ids),
            "scores": pa.LargeListArray.from_arrays(ends, pa.array(scores_QK.ravel())),
        }
    )


def as_ids(values: pa.ChunkedArray, what: str) -> pa.Array:
    """Return ids as texts or as 64-bit integers; raise InputError for other ids."""
    if values.null_count:
        raise InputError(f"{what}: a row has no id")
    kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return values.cast(pa.large_string()).combine_chunks()
    if pa.types.is_integer(kind):
        try:
            return values.cast(pa.int64()).combine_chunks()
        except pa.ArrowInvalid as error:  # an unsigned integer above 2**63
            raise InputError(f"{what}: an id is too large; give ids as texts: {error}") from None
    raise InputError(f"{what}: ids must be texts or whole numbers, got {kind}")


def _order(ids: pa.Array) -> IntArray:
    """Return a number for each id that sorts like the id; equal ids have equal numbers."""
    if pa.types.is_integer(ids.type):
        numbers: IntArray = ids.to_numpy()
        return numbers
    places: IntArray = pc.rank(ids, tiebreaker="dense").to_numpy().astype(np.int64)
    return places
