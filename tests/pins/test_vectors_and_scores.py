"""Pins the vectors of the default model and the scores of every stage, from texts to numbers.

What users have stored is compared with what is computed today: a vector, a weight of BM25 or a score that moves changes
what their searches find and what their thresholds let through.

Vectors lie in ``recorded/vectors.npy``. On the processor, and with the threads and packages that they were recorded
with (``MADE_WITH`` of the values), they have to be the same bit for bit. Elsewhere kernels differ in the last bits, and
1e-6 is allowed. What computes no vectors (words, BM25, fusion of given scores) is exact everywhere, but for the
rounding of float32 where numpy sums.
"""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from pins.pinning import RECORDED, cross_encoder_folder, encoder_folder, plain, recorded
from twinvec import CrossEncoderReranker, Document, Encoder, Hit, MaxSimReranker, MemoryIndex, RetrieveRerank
from twinvec.retrieval import memory_index
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.bm25 import document_vector, query_vector, term_id
from twinvec.retrieval.fusion import fuse
from twinvec.retrieval.relevance import Calibration
from twinvec.similarity import cluster, most_similar_pairs, semantic_search

VECTORS = RECORDED / "vectors.npy"
NAME = "vectors_and_scores"
TEXTS = (
    "",
    " \n",
    "The quick brown fox jumps over the lazy dog.",
    "How do I renew a certificate?",
    "Late fees are refunded within 30 days if the invoice was wrong.",
    "Größe, façade, naïve, Łódź, Ελλάδα, Москва, İstanbul",
    "日本語のテキスト 中文 한국어 العربية עברית हिन्दी ไทย",
    "👩‍👩‍👧 🎉 ﬁ ① ½ e\u0301",
    "def search(query, limit=10): return [hit for hit in hits if hit.score > 0.5]  # code",
    "a",
    "A long text of many words that is cut after 256 tokens. " * 60,
)
QUERIES = ("renewing certificates", "refund of a late fee", "日本語 Größe")
DOCUMENTS = [Document(str(n), text, "Title" if n == 4 else "") for n, text in enumerate(TEXTS) if text.strip()]
DENSE, SPARSE = [0.9, 0.5, 0.1, 0.45, -0.2], [0.0, 8.0, 4.0, 1.5, 0.0]
EXACT = ("terms", "bm25 documents", "bm25 queries", "sparse", "settings", "binary")
TOLERANCES = {"fusion": 1e-7, "similarity": 1e-6, "hybrid": 1e-5}
LOOSEST = 1e-5
FLAGS = {"avx512f": True, "avx_vnni": False}
"""Flags by which the processor that the values were recorded on differs from earlier and later ones of its name."""
NAMES = (*EXACT, "dense", "hybrid", "fusion", "maxsim", "tiny", "similarity")


def make(folder: Path) -> None:
    """Record the vectors."""
    del folder
    np.save(VECTORS, Encoder("default").encode(TEXTS))


@cache
def default(engine: Any = "auto") -> Encoder:
    """The default model, loaded once for each engine."""
    return Encoder("default", engine=engine)


def values(folder: Path) -> dict[str, Any]:
    """Scores by stage."""
    encoder = default()
    vectors = encoder.encode(TEXTS)
    with patch.object(memory_index, "NEWEST_ANALYSIS", 2):  # the version that the scores were recorded with
        index = MemoryIndex(encoder, DOCUMENTS, calibration=Calibration(words=1))  # as each index fused then
    terms = Analyzer("english").terms(TEXTS)
    german = Analyzer("german").terms(TEXTS)
    return {
        "MADE_WITH": made_with(),
        "settings": _settings(encoder),
        "binary": encoder.encode(TEXTS, storage="binary")[2:].tolist(),
        "terms": {"english": terms, "german": german, "ids": {term: term_id(term) for each in terms for term in each}},
        "bm25 documents": [_sparse(document_vector(each, 9.5)) for each in terms],
        "bm25 queries": [_sparse(query_vector(each)) for each in terms],
        **{
            mode: [[(hit.id, hit.score, dict(hit.scores)) for hit in found] for found in _search(index, mode)]
            for mode in ("dense", "sparse", "hybrid")
        },
        "fusion": _fusion(),
        "maxsim": _reranked(RetrieveRerank(index, MaxSimReranker(encoder), candidates=5)),
        "tiny": _tiny(folder),
        "similarity": _similarity(vectors[2:10]),
    }


def made_with() -> dict[str, Any]:
    """The processor, how many threads compute on it, and the packages that do: sums are cut by threads."""
    try:
        found = re.search("model name\\s*: (.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    packages = {name: version(name) for name in ("numpy", "openvino", "tokenizers", "torch")}
    threads = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0, torch.get_num_threads()]
    return {"processor": found[1] if found else platform.processor(), "threads": threads, **packages}


def made_here() -> bool:
    """Whether the recorded values were made with what computes here."""
    found = re.search("flags\\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else None
    flags = found[1].split() if found else []
    return recorded(NAME)["MADE_WITH"] == made_with() and all((each in flags) == has for each, has in FLAGS.items())


def _settings(encoder: Encoder) -> dict[str, Any]:
    names = ("name", "dim", "max_tokens", "normalizes", "prompts", "document_prompt", "overrides", "truncated")
    counts = encoder.count_tokens(list(TEXTS)).tolist()
    return {**{name: getattr(encoder, name) for name in names}, "tokens": counts}


def _sparse(vector: Any) -> list[Any]:
    return [vector[0].tolist(), vector[1].tolist()]


def _search(index: MemoryIndex, mode: Any) -> list[list[Hit]]:
    return [index.search(query, 4, mode=mode) for query in QUERIES]


def _fusion() -> dict[str, Any]:
    dense, sparse = np.array(DENSE, dtype=np.float32), np.array(SPARSE, dtype=np.float32)
    options: dict[str, dict[str, Any]] = {
        "weights": {"weights": (1.0, 0.3)},
        "terms": {"terms": 2},
        "first": {"first": 3},
    }
    methods: Any = ("adaptive", "rrf", "distribution")
    found = {method: fuse(dense, sparse, method=method).tolist() for method in methods}
    return {**found, **{name: fuse(dense, sparse, **given).tolist() for name, given in options.items()}}


def _reranked(search: RetrieveRerank) -> list[Any]:
    return [[(hit.id, hit.score, dict(hit.scores)) for hit in search.search(query, 4)] for query in QUERIES]


def _tiny(folder: Path) -> dict[str, Any]:
    prompts = {"query": "find: ", "document": "passage: "}
    encoder = Encoder(encoder_folder(folder / "tiny", dense=((12, "Tanh"),), prompts=prompts), engine="torch")
    reranker = CrossEncoderReranker(cross_encoder_folder(folder / "cross"), engine="torch")
    hits = [Hit(document.id, document.text, 0.0) for document in DOCUMENTS[:4]]
    texts = list(TEXTS[2:8])
    return {
        "encode": encoder.encode(texts).tolist(),
        "query": encoder.encode_query(texts[:2]).tolist(),
        "document": encoder.encode_document(texts[:2]).tolist(),
        "tokens": [states.tolist() for states in encoder.encode_tokens(texts[:1])],
        "cross-encoder": reranker.score([(query, text) for query in QUERIES for text in texts]).tolist(),
        "reranked": [(hit.id, hit.score, dict(hit.scores)) for hit in reranker.rerank(QUERIES[0], hits)],
    }


def _similarity(vectors: np.ndarray) -> dict[str, Any]:
    scores, rows = semantic_search(vectors[:3], vectors, 3)
    pairs, ids = most_similar_pairs(vectors, 4)
    labels = cluster(vectors, "agglomerative", threshold=0.1)
    return {
        "search": [scores.tolist(), rows.tolist()],
        "pairs": [pairs.tolist(), ids.tolist()],
        "labels": labels.tolist(),
    }


def near(now: Any, then: Any, tolerance: float) -> bool:
    """The same but for numbers that may differ by so much."""
    if isinstance(then, dict):
        return (
            isinstance(now, dict) and now.keys() == then.keys() and all(near(now[k], then[k], tolerance) for k in then)
        )
    if isinstance(then, list):
        return len(now) == len(then) and all(near(a, b, tolerance) for a, b in zip(now, then, strict=True))
    if isinstance(then, float) and isinstance(now, float):
        return abs(now - then) <= tolerance
    return now == then and type(now) is type(then)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return plain(values(tmp_path_factory.mktemp("vectors")))


@pytest.mark.parametrize("name", NAMES)
def test_the_scores_are_those_of_before(found, name):
    tolerance = 0.0 if made_here() or name in EXACT else TOLERANCES.get(name, LOOSEST)
    assert near(found[name], recorded(NAME)[name], tolerance), found[name]


def test_nothing_is_left_unrecorded(found):
    assert found.keys() == recorded(NAME).keys() == {*NAMES, "MADE_WITH"}


@pytest.mark.parametrize("engine", ["auto", "torch", "openvino", "onnx"])
def test_the_vectors_are_those_of_before(engine):
    now, then = default(engine).encode(TEXTS), np.load(VECTORS)
    assert (now.shape, now.dtype) == (then.shape, then.dtype)
    if engine == "auto" and made_here():
        assert now.tobytes() == then.tobytes(), np.abs(now - then).max()
    assert np.abs(now - then).max() <= 1e-6
