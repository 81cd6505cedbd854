"""The quality of searches in a collection, and of searches over vectors in several forms of storage.

A collection is measured through ``search``, with its own index or with other indexes. The forms of storage (float16,
8-bit integers, single bits, fewer dimensions) are compared on arrays, with float32 queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet, check_set
from twinvec.evaluation.ir import IrResult, as_run, check_finds, measure_ir, run_of_rows, search_all
from twinvec.evaluation.measures import MEASURES, deepest
from twinvec.evaluation.models.text_model import TextModel, check_text_model
from twinvec.evaluation.reranking import Reranked, check_reranking, rerank_hits
from twinvec.evaluation.statistics import RESAMPLES, check_resamples
from twinvec.retrieval.base import Hit, Reranker, Retriever
from twinvec.retrieval.retrieve_rerank import RetrieveRerank, without_passages
from twinvec.similarity import semantic_search
from twinvec.storage import from_int8, measure_ranges, to_int8
from twinvec.support.checks import check_data, check_methods, mapping
from twinvec.support.progress import progress_bar

NEIGHBOURS = 10
"""Number of exact nearest neighbours that a search with an index, or in a form of storage, should find."""

TIMED = 30
"""Largest number of searches with a reranker that are timed, one by one."""

INDEXES: Mapping[str, Mapping[str, Any]] = {
    "float32": {"quantization": "none", "m": 16, "ef_construct": 100},
    "float32, 8 edges": {"quantization": "none", "m": 8, "ef_construct": 50},
    "float32, 32 edges": {"quantization": "none", "m": 32, "ef_construct": 200},
    "int8": {"quantization": "int8"},
    "4 bits": {"quantization": "turbo"},
    "binary, 4 x rescored": {"quantization": "binary", "oversampling": 4.0},
    "binary, 1 x rescored": {"quantization": "binary", "oversampling": 1.0},
}
"""Indexes to compare: name -> the settings that differ from the collection's own."""

_BITS = {"none": 32, "int8": 8, "turbo": 4, "binary": 1}  # bits of a dimension, by quantization
_EDGE_BYTES = 4


@dataclass(frozen=True)
class StorageVariant:
    """The figures of a form of storage, or of an index.

    Attributes:
        form: Name of the form or of the index.
        bytes: Size of a vector.
        neighbours: Share of the ``NEIGHBOURS`` nearest vectors by float32 that are found, x 100.
    """

    form: str
    bytes: int
    neighbours: float
    result: IrResult

    @property
    def figures(self) -> dict[str, float]:
        """The ranking measures, the share of neighbours found, and the size."""
        return {**self.result.figures, f"neighbours@{NEIGHBOURS}": self.neighbours, "bytes": self.bytes}


def evaluate_collection(collection: Any, data: BeirSet, **options: Any) -> IrResult:
    """Measure the searches of a ``twinvec_qdrant.Collection``; ``options`` and errors are those of ``evaluate_served``.

    The figures are the measures and:

    - ``neighbours@10``: the share of the exact nearest vectors that a dense search finds.
    - ``ms_p50``, ``ms_p95``, ``ms_p99``: percentiles of the milliseconds of a search, including the query's encoding.
    - ``bytes``: the mean number of bytes of a vector that a search reads. For an indexed vector they are its copy in
      the index and its edges in the graph; for any other vector, the vector itself. The original vectors that rescore
      the best hits are not counted. A sparse search reads no vectors: 0.
    """
    _check_collection(collection)
    result, times = evaluate_served(collection, data, **options)
    served = {f"neighbours@{NEIGHBOURS}": _neighbours(collection, data), **latencies(times)}
    searched = 0 if options.get("mode") == "sparse" else _searched_bytes(collection.info())
    return replace(result, figures={**result.figures, **served, "bytes": searched})


def evaluate_indexes(
    collection: Any, data: BeirSet, *, indexes: Mapping[str, Mapping[str, Any]] = INDEXES, **options: Any
) -> list[StorageVariant]:
    """Return the figures of ``evaluate_collection`` for each index; then give the collection its own index again."""
    _check_collection(collection, "reindex")
    check_set(data)
    for name, settings in mapping(indexes, "indexes").items():
        mapping(settings, f"indexes: {name}")
    own = collection.info()["index"]
    variants = []

    def reindex(settings: Mapping[str, Any]) -> None:
        with progress_bar("Reindexing", None, "", shown=options.get("progress", False)):
            collection.reindex(settings)

    try:
        for name, changed in indexes.items():
            reindex({**own, **changed})
            result = evaluate_collection(collection, data, **options)
            found = result.figures[f"neighbours@{NEIGHBOURS}"]
            variants.append(StorageVariant(name, _searched_bytes(collection.info()), found, result))
    finally:
        reindex(own)
    return variants


def evaluate_reranked(
    collection: Retriever,
    reranker: Reranker,
    before: IrResult,
    *,
    candidates: int = 100,
    resamples: int = RESAMPLES,
    progress: bool = False,
    **options: Any,
) -> Reranked:
    """Measure a collection with a reranker, and the gain over ``before``; ``options`` are those of ``evaluate_served``.

    The best ``candidates`` hits are reranked, even if the measures need more; the other hits follow in their order. All
    queries are reranked together, so that the token states of a text are computed once. Latencies are measured on
    ``TIMED`` single searches.
    """
    check_data(before, IrResult, "before", "an IrResult, as evaluate_ir returns it")
    check_reranking(reranker, candidates, resamples)
    data = before.data
    depth = deepest(list(before.measured.per_query)) + 1
    found = search_all(collection, data, max(depth, candidates), **options)
    check_finds(found.values(), data)
    reranked = rerank_hits(before, found, reranker, candidates=candidates, resamples=resamples, progress=progress)
    queries = list(data.queries.values())
    _, times = timed_searches(
        RetrieveRerank(collection, reranker, candidates), queries[:: -(-len(queries) // TIMED)], **options
    )
    result = reranked.result
    return replace(reranked, result=replace(result, figures={**result.figures, **latencies(times)}))


def timed_searches(
    retriever: Retriever, queries: Sequence[str], limit: int = 10, *, progress: bool = False, **options: Any
) -> tuple[list[list[Hit]], FloatArray]:
    """Search for each query, one after another; return the hits, and the seconds of each search: shape (queries,)."""
    retriever.search(queries[0], limit, **options)  # the first search loads models and indexes, which takes longer
    found, times = [], []
    with progress_bar("searching", len(queries), "queries", shown=progress) as advance:
        for query in queries:
            start = time.perf_counter()
            found.append(retriever.search(query, limit, **options))
            times.append(time.perf_counter() - start)
            advance(1)
    return found, np.array(times, dtype=np.float32)


def evaluate_served(
    retriever: Retriever,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    progress: bool = False,
    **options: Any,
) -> tuple[IrResult, FloatArray]:
    """Measure a retriever that holds the set's documents under their ids, query by query; ``options`` go to the search.

    Returns the measures, and the seconds of each search: shape (queries,). The searches leave out passages. Raises
    InputError if no hit is a document of the set.
    """
    check_methods(retriever, ("search",), "retriever", "a retriever, such as MemoryIndex(...) or a collection")
    check_set(data)
    check_resamples(resamples)
    depth = deepest(measures) + 1
    options |= without_passages(retriever)
    hits, times = timed_searches(retriever, list(data.queries.values()), depth, progress=progress, **options)
    check_finds(hits, data)
    run = as_run(dict(zip(data.queries, hits, strict=True)))
    return measure_ir(run, data, measures=measures, resamples=resamples), times


def latencies(seconds: FloatArray) -> dict[str, float]:
    """Return the 50th, 95th and 99th percentile of the seconds of searches, in milliseconds."""
    return {f"ms_p{share}": 1000 * float(np.percentile(seconds, share)) for share in (50, 95, 99)}


def evaluate_forms(
    model: TextModel,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> list[StorageVariant]:
    """Measure exact searches over document vectors in each form of storage: float32 first, then by falling size."""
    check_text_model(model, "encode_query", "encode_document")
    check_set(data)
    check_resamples(resamples)
    if not data.documents:
        raise InputError(f"{data.name}: no documents to store")
    corpus_ND = unit(np.asarray(model.encode_document([each.full_text for each in data.documents], progress=progress)))
    queries_QD = unit(np.asarray(model.encode_query(list(data.queries.values()))))
    dim = corpus_ND.shape[1]
    forms: dict[str, tuple[int, Callable[[FloatArray], FloatArray], int]] = {
        "float32": (4 * dim, np.asarray, dim),
        f"float32, {dim // 2} dimensions": (4 * (dim // 2), np.asarray, dim // 2),
        "float16": (2 * dim, lambda vectors_ND: vectors_ND.astype(np.float16).astype(np.float32), dim),
        f"float32, {dim // 4} dimensions": (4 * (dim // 4), np.asarray, dim // 4),
        "int8": (dim, _int8, dim),
        f"int8, {dim // 2} dimensions": (dim // 2, _int8, dim // 2),
        "binary": (-(-dim // 8), _binary, dim),
    }
    depth = max(deepest(measures) + 1, NEIGHBOURS)
    exact: list[set[int]] = []
    variants = []
    for form, (size, change, leading) in forms.items():
        stored_ND = change(unit(corpus_ND[:, :leading]))
        scores, rows = semantic_search(queries_QD[:, :leading], stored_ND, depth)
        nearest = [set(found[:NEIGHBOURS].tolist()) for found in rows]
        exact = exact or nearest
        result = measure_ir(run_of_rows(data, scores, rows), data, measures=measures, resamples=resamples)
        variants.append(StorageVariant(form, size, _overlap(exact, nearest), result))
    return variants


def _check_collection(collection: Any, *more: str) -> None:
    methods = ("search", "search_vector", "info", "encoder", *more)
    check_methods(collection, methods, "collection", "a collection, as Collection.open returns it")


def _neighbours(collection: Any, data: BeirSet) -> float:
    texts = [text for text in data.queries.values() if text.strip()]
    encoder = collection.encoder
    vectors_QD = encoder.encode_query(texts)

    def nearest(exact: bool) -> list[set[str]]:
        found = (collection.search_vector(each, NEIGHBOURS, exact=exact, space=encoder.space) for each in vectors_QD)
        return [{hit.id for hit in hits} for hits in found]

    return _overlap(nearest(True), nearest(False))


def _searched_bytes(info: Mapping[str, Any]) -> int:
    index = info["index"]
    edges: int = 2 * index["m"] * _EDGE_BYTES  # in the lowest layer of the graph, which has all vectors
    copy: int = -(-info["dim"] * _BITS[index["quantization"]] // 8)
    share: float = info["indexed"] / max(1, info["points"])
    vector: float = info["dim"] * _BITS["none"] / 8
    return round(share * (copy + edges) + (1 - share) * vector)


def _overlap(exact: Sequence[set[Any]], found: Sequence[set[Any]]) -> float:
    return 100 * float(np.mean([len(a & b) / len(a) for a, b in zip(exact, found, strict=True) if a]))


def _int8(vectors_ND: FloatArray) -> FloatArray:
    """Store vectors as ``Encoder.encode(storage="int8")`` does, with the value ranges of these documents."""
    ranges = measure_ranges(vectors_ND)
    return from_int8(to_int8(vectors_ND, ranges), ranges)


def _binary(vectors_ND: FloatArray) -> FloatArray:
    """Store one bit for each dimension: above 0 or not. float32 queries score them, as in Yamada et al. 2021."""
    return np.where(vectors_ND > 0, np.float32(1), np.float32(-1))
