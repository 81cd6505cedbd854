"""What is really served: a store as it answers, and vectors in the forms in which they can be kept.

A collection is asked through ``search``, as its users ask it: ranking measures where there are judgements, how many of
the nearest neighbours its index finds, and how long an answer takes; also with other indexes in place of its own. The
forms are compared on arrays: what float16, 8-bit integers, single bits and fewer dimensions cost in quality and save in
bytes. Queries stay float32 throughout, and documents are scored as they are kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import IrResult, as_run, measure_ir
from twinvec.evaluation.measures import MEASURES, cutoff
from twinvec.evaluation.models.text_model import TextModel
from twinvec.evaluation.reranking import Reranked, gain
from twinvec.evaluation.statistics import RESAMPLES
from twinvec.retrieval.base import Hit, Mode, Reranker, Retriever
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.retrieve_rerank import RetrieveRerank
from twinvec.similarity import semantic_search
from twinvec.storage import from_int8, measure_ranges, to_int8
from twinvec.support.progress import progress_bar

NEIGHBOURS = 10
"""How many of the exact nearest neighbours an index, or a form, has to find."""

INDEXES: Mapping[str, Mapping[str, Any]] = {
    "float32": {"quantization": "none", "m": 16, "ef_construct": 100},
    "float32, 8 edges": {"quantization": "none", "m": 8, "ef_construct": 50},
    "float32, 32 edges": {"quantization": "none", "m": 32, "ef_construct": 200},
    "int8": {"quantization": "int8"},
    "4 bits": {"quantization": "turbo"},
    "binary, 4 x rescored": {"quantization": "binary", "oversampling": 4.0},
    "binary, 1 x rescored": {"quantization": "binary", "oversampling": 1.0},
}
"""Settings of a collection's index to compare: name -> what differs from the collection's own."""

_BITS = {"none": 32, "int8": 8, "turbo": 4, "binary": 1}
_EDGE_BYTES = 4


class ServedCollection(Protocol):
    """What is needed of a collection, such as ``twinvec_qdrant.Collection``."""

    @property
    def encoder(self) -> Any:
        """The encoder of its space."""
        ...

    def search(self, query: str, limit: int = 10, *, mode: Mode = "hybrid", filter: Filter | None = None) -> list[Hit]:
        """As its users search it."""
        ...

    def search_vector(self, vector: Any, limit: int = 10, *, exact: bool = False) -> list[Hit]:
        """The nearest vectors; ``exact`` compares with all."""
        ...

    def info(self) -> dict[str, Any]:
        """Among others ``dim``, and under ``index`` the settings of the index."""
        ...


class IndexedCollection(ServedCollection, Protocol):
    """One that can be given another index."""

    def reindex(self, index: Mapping[str, Any]) -> Any:
        """Build the index anew with these settings."""
        ...


@dataclass(frozen=True)
class StorageVariant:
    """One form of keeping vectors, measured.

    Attributes:
        form: Its name.
        bytes: What a vector takes.
        neighbours: Share of the ``NEIGHBOURS`` nearest by float32 that are found, x 100.
        result: The ranking measures.
    """

    form: str
    bytes: int
    neighbours: float
    result: IrResult

    @property
    def figures(self) -> dict[str, float]:
        """The ranking measures and the cost."""
        return {**self.result.figures, f"neighbours@{NEIGHBOURS}": self.neighbours, "bytes": self.bytes}


def evaluate_collection(
    collection: ServedCollection,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    progress: bool = False,
    **options: Any,
) -> IrResult:
    """Ask a collection that holds the set's documents under their ids; ``options``, such as ``mode``, go to its search.

    Figures, besides the measures: ``neighbours@10``, the share of the exact nearest vectors that a dense search finds;
    of one search after another, the query's encoding included, the milliseconds that half (``ms_p50``), 95 and 99 in a
    hundred take at most; and ``bytes``, what a search walks over for each vector: its copy in the index, and the edges
    of the graph. The vectors themselves, with which the best are compared, come on top, on the disk.

    Raises:
        InputError: the collection holds none of the judged documents.
    """
    result, times = evaluate_served(
        collection, data, measures=measures, resamples=resamples, progress=progress, **options
    )
    served = {f"neighbours@{NEIGHBOURS}": _neighbours(collection, data), **latencies(times)}
    size = _searched_bytes(collection.info())
    return replace(result, figures={**result.figures, **served, "bytes": size})


def evaluate_indexes(
    collection: IndexedCollection,
    data: BeirSet,
    *,
    indexes: Mapping[str, Mapping[str, Any]] = INDEXES,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    progress: bool = False,
    **options: Any,
) -> list[StorageVariant]:
    """``evaluate_collection`` with one index after another; at the end the collection has its own again."""
    own = collection.info()["index"]
    kept = []
    try:
        for name, changed in indexes.items():
            collection.reindex({**own, **changed})
            result = evaluate_collection(
                collection, data, measures=measures, resamples=resamples, progress=progress, **options
            )
            found = result.figures[f"neighbours@{NEIGHBOURS}"]
            kept.append(StorageVariant(name, int(result.figures["bytes"]), found, result))
    finally:
        collection.reindex(own)
    return kept


def evaluate_reranked(
    collection: ServedCollection,
    reranker: Reranker,
    before: IrResult,
    *,
    candidates: int = 100,
    resamples: int = RESAMPLES,
    progress: bool = False,
    **options: Any,
) -> Reranked:
    """Ask a collection with a reranker behind it: the measures, the milliseconds, and the gain over ``before``."""
    measures = list(before.measured.per_query)
    stages = RetrieveRerank(collection, reranker, candidates)
    result, times = evaluate_served(
        stages, before.data, measures=measures, resamples=resamples, progress=progress, **options
    )
    timed = replace(result, figures={**result.figures, **latencies(times)})
    return Reranked(timed, gain(before, result, resamples=resamples))


def evaluate_served(
    retriever: Retriever,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    progress: bool = False,
    **options: Any,
) -> tuple[IrResult, FloatArray]:
    """Measures, and the seconds of each search, shape (queries,); ``options`` go to the search.

    Raises:
        InputError: the retriever finds none of the judged documents' ids for any query: it holds other documents.
    """
    depth = max(map(cutoff, measures)) + 1
    found: dict[str, list[Hit]] = {}
    times = []
    retriever.search(next(iter(data.queries.values())), depth, **options)  # what is loaded at first use is no latency
    with progress_bar("searching", len(data.queries), "queries", shown=progress) as advance:
        for query, text in data.queries.items():
            start = time.perf_counter()
            found[query] = retriever.search(text, depth, **options)
            times.append(time.perf_counter() - start)
            advance(1)
    known = {document.id for document in data.documents}
    if not any(hit.id in known for hits in found.values() for hit in hits):
        raise InputError(
            f"{data.name}: the collection finds none of its documents; it has to hold them under their ids"
        )
    return measure_ir(as_run(found), data, measures=measures, resamples=resamples), np.array(times, dtype=np.float32)


def latencies(seconds: FloatArray) -> dict[str, float]:
    """Milliseconds within which half, 95 and 99 in a hundred searches are answered."""
    return {f"ms_p{share}": 1000 * float(np.percentile(seconds, share)) for share in (50, 95, 99)}


def evaluate_forms(
    model: TextModel,
    data: BeirSet,
    *,
    measures: Sequence[str] = MEASURES,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> list[StorageVariant]:
    """Exact search over the model's document vectors in each form: float32 first, then from large to small."""
    corpus_ND = unit(np.asarray(model.encode_document([each.full_text for each in data.documents], progress=progress)))
    queries_QD = unit(np.asarray(model.encode_query(list(data.queries.values()))))
    dim = corpus_ND.shape[1]
    forms: dict[str, tuple[int, Callable[[FloatArray], FloatArray], int]] = {
        "float32": (4 * dim, np.asarray, dim),
        f"float32, {dim // 2} dimensions": (4 * (dim // 2), np.asarray, dim // 2),
        "float16": (2 * dim, _float16, dim),
        f"float32, {dim // 4} dimensions": (4 * (dim // 4), np.asarray, dim // 4),
        "int8": (dim, _int8, dim),
        f"int8, {dim // 2} dimensions": (dim // 2, _int8, dim // 2),
        "binary": (-(-dim // 8), _binary, dim),
    }
    depth = max(max(map(cutoff, measures)) + 1, NEIGHBOURS)
    exact: list[set[int]] = []
    kept = []
    for form, (size, change, leading) in forms.items():
        stored_ND = change(unit(corpus_ND[:, :leading]))
        scores, rows = semantic_search(queries_QD[:, :leading], stored_ND, depth)
        nearest = [set(found[:NEIGHBOURS].tolist()) for found in rows]
        exact = exact or nearest
        run = {
            query: {data.documents[row].id: float(score) for score, row in zip(scores[index], rows[index], strict=True)}
            for index, query in enumerate(data.queries)
        }
        result = measure_ir(run, data, measures=measures, resamples=resamples)
        kept.append(StorageVariant(form, size, _overlap(exact, nearest), result))
    return kept


def _neighbours(collection: ServedCollection, data: BeirSet) -> float:
    texts = [text for text in data.queries.values() if text.strip()]
    vectors_QD = collection.encoder.encode_query(texts)
    exact = [{hit.id for hit in collection.search_vector(each, NEIGHBOURS, exact=True)} for each in vectors_QD]
    found = [{hit.id for hit in collection.search_vector(each, NEIGHBOURS)} for each in vectors_QD]
    return _overlap(exact, found)


def _searched_bytes(info: Mapping[str, Any]) -> int:
    index = info["index"]
    edges: int = 2 * index["m"] * _EDGE_BYTES  # of the lowest layer of the graph, where all vectors are
    copy: int = -(-info["dim"] * _BITS[index["quantization"]] // 8)
    return copy + edges


def _overlap(exact: Sequence[set[Any]], found: Sequence[set[Any]]) -> float:
    return 100 * float(np.mean([len(a & b) / len(a) for a, b in zip(exact, found, strict=True) if a]))


def _float16(vectors_ND: FloatArray) -> FloatArray:
    return vectors_ND.astype(np.float16).astype(np.float32)


def _int8(vectors_ND: FloatArray) -> FloatArray:
    """As ``Encoder.encode(storage="int8")`` keeps them, with the ranges of the documents at hand."""
    ranges = measure_ranges(vectors_ND)
    return from_int8(to_int8(vectors_ND, ranges), ranges)


def _binary(vectors_ND: FloatArray) -> FloatArray:
    """One bit a dimension: above 0 or not. Scored with float32 queries (Yamada et al. 2021 rescore so)."""
    return np.where(vectors_ND > 0, np.float32(1), np.float32(-1))
