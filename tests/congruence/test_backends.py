"""One collection on every store, against exact search in memory: the same documents, the same answers.

Dense scores are cosines of single-precision vectors and differ by less than 1e-5. BM25 scores are the same to 1e-3 when
all documents came in one go; later, weights may rest on an average length that is up to 5% off (``lexicon.DRIFT``),
and scores with them. Order is compared by score: documents whose scores are equal within the tolerance may change
places.
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import statistics
import subprocess
import textwrap
from uuid import uuid4

import numpy as np
import pytest
from qdrant_client import QdrantClient

from qdrant_stand_in import StandIn
from twinvec import Document, Encoder, MemoryIndex
from twinvec_qdrant import Collection
from twinvec_qdrant.lexicon import DRIFT

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
    """The default model; a text is encoded once."""

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.dim, self.space = encoder.name, encoder.dim, encoder.space
        self._encoder = encoder
        self._known: dict[str, np.ndarray] = {}

    def encode_document(self, texts, *, progress=False):
        unknown = [text for text in dict.fromkeys(texts) if text not in self._known]
        self._known.update(zip(unknown, self._encoder.encode_document(unknown), strict=True))
        return np.stack([self._known[text] for text in texts])

    def encode_query(self, texts):
        return self._encoder.encode_query(texts)


@pytest.fixture(scope="module")
def encoder(encoder):
    return Remembering(encoder)


@pytest.fixture(scope="module")
def stand_in():
    """A server's interface over HTTP, in this process."""
    with StandIn().running() as running:
        yield running


@pytest.fixture(params=["embedded", "client", "stand-in", "server"])
def opened(request, tmp_path, encoder):
    """An empty collection on each store."""
    if request.param == "embedded":
        with Collection.open("docs", tmp_path, encoder=encoder, chunking=False) as collection:
            yield collection
        return
    if request.param == "stand-in":
        place = {"url": request.getfixturevalue("stand_in").url}
        with Collection.open(f"twinvec-{uuid4().hex}", encoder=encoder, chunking=False, **place) as collection:
            yield collection
        return
    url = os.environ.get("QDRANT_URL")
    if request.param == "server" and not url:
        pytest.skip("no Qdrant server: set QDRANT_URL (and QDRANT_API_KEY) to run the suite on one")
    client = QdrantClient(":memory:") if request.param == "client" else None
    name = f"twinvec-{uuid4().hex}"
    place = {"client": client} if client else {"url": url}
    with Collection.open(name, encoder=encoder, chunking=False, **place) as collection:
        yield collection
        collection._backend._client.delete_collection(name)


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


@pytest.mark.parametrize(("mode", "tolerance"), [("dense", 1e-5), ("sparse", 1e-3), ("hybrid", 1e-3)])
def test_every_mode_gives_the_scores_of_exact_search(opened, memory, documents, mode, tolerance):
    opened.ingest(documents)
    found = opened.search_many(QUERIES, 20, mode)
    for query, hits in zip(QUERIES, found, strict=True):
        assert_same(hits, memory.search(query, 20, mode=mode), tolerance)
    assert sum(map(len, found)) > 20 * (len(QUERIES) - 2)


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


def test_after_changes_scores_are_those_of_the_documents_there_are(opened, encoder, documents):
    half = len(documents) // 2
    opened.ingest(documents)
    opened.ingest([Document(each.id, each.text[:200], each.title, each.payload) for each in documents[:half]])
    opened.delete([each.id for each in documents[half::3]])
    left = [Document(each.id, each.text[:200], each.title, each.payload) for each in documents[:half]]
    left += [each for row, each in enumerate(documents[half:]) if row % 3]
    memory = MemoryIndex(encoder, left)
    assert opened.count() == len(left)
    for query in QUERIES:
        assert_same(opened.search(query, 20, "dense"), memory.search(query, 20, mode="dense"), 1e-5)
        found = {hit.id: hit.score for hit in opened.search(query, len(left), "sparse")}
        expected = {hit.id: hit.score for hit in memory.search(query, len(left), mode="sparse")}
        assert found == pytest.approx(expected, rel=2 * DRIFT)
