"""One collection on every store, against exact search in memory: the same documents, the same answers.

Dense scores are cosines of single-precision vectors and differ by less than 1e-5. BM25 scores are the same to 1e-3 when
all documents came at once; later, weights may rest on an average length that is up to 5% off (``bm25_weights.DRIFT``),
and scores with them. Order is compared by score: documents whose scores are equal within the tolerance may change
places.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import shutil
import statistics
import subprocess
import textwrap
from contextlib import closing
from uuid import uuid4

import numpy as np
import pytest
import qdrant_edge as edge
from qdrant_client import QdrantClient

from cases import slow
from stand_in import StandIn
from twinvec import Document, Encoder, MaxSimReranker, MemoryIndex, RetrieveRerank
from twinvec.retrieval.analysis import Analyzer
from twinvec_qdrant import Collection, drop_collection
from twinvec_qdrant.records.bm25_weights import DRIFT

QUERIES = [
    "copy a file with its permissions",
    "median of a list of numbers",
    "parse JSON from a string",
    "wait for a process to finish",
    "environment variable",
    "remove leading white space from every line",
    "frobnicate",
]
FILTERS = [
    None,
    {"module": "shutil"},
    {"module": ["json", "textwrap"]},
    {"lines": {"gte": 5, "lt": 20}},
    {"public": True},
    {"public": False, "module": "os"},
    {"lines": 3},
    {"where.file": "textwrap.py"},
    {"words": ["file", "process"]},
    {"id": ["os.getenv", "json.loads"]},
    {"missing": 1},
]


def documentation() -> list[Document]:
    """The documentation of some modules, function by function."""
    documents = []
    for module in (json, os, shutil, statistics, subprocess, textwrap):
        for name, value in sorted(vars(module).items()):
            text = inspect.getdoc(value) if callable(value) else None
            if text and getattr(value, "__module__", None):
                payload = {
                    "module": module.__name__,
                    "public": not name.startswith("_"),
                    "lines": text.count("\n") + 1,
                    "words": sorted(set(text.lower().split()))[:50],
                    "where": {"file": f"{module.__name__}.py"},
                }
                documents.append(Document(f"{module.__name__}.{name}", text, name, payload))
    return documents


class Remembering:
    """The default model; a text is encoded once, and its token states too."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dim, self.space = encoder.name, encoder.dim, encoder.space
        self.tokenizer = encoder.tokenizer
        self._encoder = encoder
        self._documents: dict[str, np.ndarray] = {}
        self._queries: dict[str, np.ndarray] = {}
        self._states: dict[tuple[str, str], np.ndarray] = {}

    def encode_document(self, texts, *, progress=False):
        return self._remembered(self._documents, texts, self._encoder.encode_document)

    def encode_query(self, texts):
        return self._remembered(self._queries, texts, self._encoder.encode_query)

    def _remembered(self, known, texts, encode):
        unknown = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(unknown, encode(unknown), strict=True))
        return np.stack([known[text] for text in texts])

    def encode_tokens(self, texts, *, prompt, on_batch=None):
        unknown = [text for text in dict.fromkeys(texts) if (prompt, text) not in self._states]
        states = self._encoder.encode_tokens(unknown, prompt=prompt, on_batch=on_batch)
        self._states.update({(prompt, text): each for text, each in zip(unknown, states, strict=True)})
        return [self._states[prompt, text] for text in texts]


@pytest.fixture(scope="module")
def encoder(encoder):
    return Remembering(encoder)


@pytest.fixture(scope="module")
def stand_in():
    """A server's interface over HTTP, in this process."""
    with StandIn().running() as running:
        yield running


@pytest.fixture(params=["embedded", "client", "stand-in", "server"])
def place(request, tmp_path):
    """Arguments of ``Collection.open`` for an empty place in each store."""
    name = f"twinvec-{uuid4().hex}"
    if request.param == "embedded":
        yield {"name": name, "path": tmp_path}
    elif request.param == "stand-in":
        yield {"name": name, "url": request.getfixturevalue("stand_in").url}
    elif request.param == "client":
        yield {"name": name, "client": QdrantClient(":memory:")}
    elif url := os.environ.get("QDRANT_URL"):
        yield {"name": name, "url": url}
        drop_collection(name, url=url)
    else:
        pytest.skip("no Qdrant server: set QDRANT_URL (and QDRANT_API_KEY) to run the suite on one")


@pytest.fixture
def opened(place, encoder):
    """An empty collection on each store."""
    with Collection.open(**place, encoder=encoder, chunking=False) as collection:
        yield collection


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    found = documentation()
    assert len(found) > 150
    return found


@pytest.fixture(scope="module")
def memory(encoder, documents) -> MemoryIndex:
    return MemoryIndex(encoder, documents)


def assert_same(found, expected, tolerance):
    """The same hits with the same scores, in the same order but for equal scores."""
    assert len(found) == len(expected)
    by_id = {hit.id: hit for hit in expected}
    for hit, other in zip(found, expected, strict=True):
        assert hit.score == pytest.approx(other.score, rel=tolerance, abs=tolerance)
        if hit.id in by_id:  # at the end of the list an equal one may stand in its place
            assert hit.text == by_id[hit.id].text
            for stage, score in by_id[hit.id].scores.items():
                assert hit.scores[stage] == pytest.approx(score, rel=tolerance, abs=tolerance), (hit.id, stage)
    worst = expected[-1].score if expected else 0.0
    clear = [hit.id for hit in expected if hit.score > worst + tolerance * (1 + abs(worst))]
    assert set(clear) <= {hit.id for hit in found}


@pytest.mark.parametrize(("mode", "tolerance"), [slow("dense", 1e-5), slow("sparse", 1e-3), ("hybrid", 1e-3)])
def test_every_mode_gives_the_scores_of_exact_search(opened, encoder, documents, mode, tolerance):
    opened.ingest(documents)
    found = opened.search_many(QUERIES, 20, mode)
    calibration = opened._serving.current.description.scale
    assert calibration.landmarks is not None
    memory = MemoryIndex(encoder, documents, calibration=calibration)
    for query, hits in zip(QUERIES, found, strict=True):
        assert_same(hits, memory.search(query, 20, mode=mode), tolerance)
    assert sum(map(len, found)) > 20 * (len(QUERIES) - 2)


@pytest.mark.slow
def test_filters_select_the_same_documents(opened, memory, documents):
    opened.ingest(documents)
    selected = set()
    for wanted in FILTERS:
        hits = opened.search(QUERIES[0], 10, "dense", wanted)
        assert_same(hits, memory.search(QUERIES[0], 10, wanted, mode="dense"), 1e-5)
        found = {hit.id for hit in opened.search(QUERIES[0], len(documents), "dense", wanted)}
        assert found == {hit.id for hit in memory.search(QUERIES[0], len(documents), wanted, mode="dense")}
        assert set(opened.find(wanted)) == found
        selected.add(len(found))
    assert len(selected) > 8


@pytest.mark.slow
def test_the_same_documents_are_listed(opened, documents):
    opened.ingest(documents)
    listed = list(opened.documents({"module": "shutil"}, pattern="*copy*"))
    expected = sorted(each.id for each in documents if each.payload["module"] == "shutil" and "copy" in each.id)
    assert [each.id for each in listed] == expected != []
    assert {(each.chunks, each.complete) for each in listed} == {(1, True)}
    assert [each.id for each in opened.documents()] == sorted(each.id for each in documents)


def changed(documents: list[Document]) -> tuple[list[Document], list[Document], list[str]]:
    """Half of the documents in another version, all that are there in the end, and the ids of those to delete."""
    half = len(documents) // 2
    shorter = [Document(each.id, each.text[:200], each.title, each.payload) for each in documents[:half]]
    left = [*shorter, *(each for row, each in enumerate(documents[half:]) if row % 3)]
    return shorter, left, [each.id for each in documents[half::3]]


def counts_removed_points(place) -> bool:
    """Whether the store's document frequencies count removed points: those of a server before 1.19 do."""
    url = os.environ.get("QDRANT_URL")
    if url is None or "url" not in place:
        return False
    with closing(QdrantClient(url=url, api_key=os.environ.get("QDRANT_API_KEY"))) as client:
        return tuple(map(int, client.info().version.split(".")[:2])) < (1, 19)


def frequency_bounds(query: str, left: list[Document], gone: list[Document]) -> tuple[float, float]:
    """By how much a score may be off, at most, if any of the documents that are gone count in its frequencies."""
    there, removed = ([set(each) for each in Analyzer().terms([d.full_text for d in some])] for some in (left, gone))

    def idf(count: int, size: int) -> float:
        return math.log(1 + (size - count + 0.5) / (count + 0.5))

    lowest, highest = [1.0], [1.0]
    for term in Analyzer().terms([query])[0]:
        live, stale = (sum(term in each for each in some) for some in (there, removed))
        if live:
            lowest.append(idf(live + stale, len(left) + stale) / idf(live, len(left)))
            highest.append(idf(live, len(left) + len(gone) - stale) / idf(live, len(left)))
    return min(lowest), max(highest)


@pytest.mark.slow
def test_after_changes_scores_are_those_of_the_documents_there_are(opened, place, encoder, documents):
    """On a server before 1.19, as far as the words of removed documents allow; see ``frequency_bounds``."""
    shorter, left, deleted = changed(documents)
    opened.ingest(documents)
    opened.ingest(shorter)
    opened.delete(deleted)
    memory = MemoryIndex(encoder, left)
    assert opened.count() == len(left)
    gone = [each for each in documents if each not in left]
    for query in QUERIES:
        assert_same(opened.search(query, 20, "dense"), memory.search(query, 20, mode="dense"), 1e-5)
        found = {hit.id: hit.score for hit in opened.search(query, len(left), "sparse")}
        expected = {hit.id: hit.score for hit in memory.search(query, len(left), mode="sparse")}
        if counts_removed_points(place):
            assert_within(found, expected, frequency_bounds(query, left, gone))
        else:
            assert found == pytest.approx(expected, rel=2 * DRIFT)


def test_where_removed_documents_count_scores_and_order_change_within_their_bounds(
    tmp_path, encoder, documents, monkeypatch
):
    """The embedded engine counts as a server before 1.19 does unless it is told to count what there is."""
    monkeypatch.setattr("twinvec_qdrant.stores.embedded.values._LIVE_FREQUENCIES", edge.SearchParams())
    shorter, left, deleted = changed(documents)
    gone = [each for each in documents if each not in left]
    memory = MemoryIndex(encoder, left)
    off = []
    with Collection.open("changed", tmp_path, encoder=encoder, chunking=False) as collection:
        collection.ingest(documents)
        collection.ingest(shorter)
        collection.delete(deleted)
        for query in QUERIES:
            found = {hit.id: hit.score for hit in collection.search(query, len(left), "sparse")}
            expected = {hit.id: hit.score for hit in memory.search(query, len(left), mode="sparse")}
            assert_within(found, expected, frequency_bounds(query, left, gone))
            off += [abs(found[name] / expected[name] - 1) for name in expected]
    assert max(off) > 2 * DRIFT, "the removed documents do count"


def assert_within(found: dict[str, float], expected: dict[str, float], bounds: tuple[float, float]) -> None:
    """Check that each score, and the ratio of any two scores that swap ranks, stays within the bounds."""
    low, high = bounds[0] * (1 - 2 * DRIFT), bounds[1] * (1 + 2 * DRIFT)
    assert found.keys() == expected.keys()
    assert all(low * expected[name] <= found[name] <= high * expected[name] for name in expected)
    for first in expected:
        for second in expected:
            if found[first] > found[second]:
                assert expected[first] * high >= expected[second] * low


@pytest.mark.slow
def test_late_interaction_over_kept_states_gives_the_scores_of_computed_ones(place, encoder, documents, monkeypatch):
    with Collection.open(**place, encoder=encoder, late_interaction=True) as collection:
        collection.ingest(documents[::8])
        assert collection.count() > len(documents[::8]), "some are cut into several chunks"
        for options in ({"group": True}, {"group": False}):
            found = collection.search_many(QUERIES, 20, **options)
            computed = MaxSimReranker(encoder).rerank_many(QUERIES, found)
            with monkeypatch.context() as patch:
                patch.setattr(encoder, "encode_tokens", _of_queries(encoder.encode_tokens))
                kept = RetrieveRerank(collection, collection.maxsim(), 20).search_many(QUERIES, 20, **options)
            for hits, expected in zip(kept, computed, strict=True):
                assert_same(hits, expected, 5e-3)  # standardised within the list, which enlarges the rounding
                stages = {hit.id: hit.scores["maxsim"] for hit in expected}
                assert {hit.id: hit.scores["maxsim"] for hit in hits} == pytest.approx(stages, abs=2e-4)


def _of_queries(encode_tokens):
    """``encode_tokens`` that computes no state of a document."""

    def encode(texts, *, prompt, on_batch=None):
        assert prompt == "query"
        return encode_tokens(texts, prompt=prompt, on_batch=on_batch)

    return encode
