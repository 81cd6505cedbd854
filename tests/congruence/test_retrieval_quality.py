"""Search on SciFact is as good as with other libraries, and hybrid search is better, in memory and in a collection.

The documents are the 800 that this command takes; its figures of the other libraries are those named here::

    python benchmarks/retrieval.py --data ../shared/data --sets scifact --limit-documents 800 --output scifact.md

``benchmarks/RETRIEVAL.md`` has the figures of all 5,183 documents.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from twinvec import MemoryIndex
from twinvec.evaluation.beir import load_beir
from twinvec.evaluation.ir import as_run, measure_ir, search_all
from twinvec_qdrant import Collection

pytestmark = [pytest.mark.data, pytest.mark.slow]


class Encoded:
    """An encoder that knows the vectors of the documents already, and encodes each query once."""

    def __init__(self, encoder, texts, vectors):
        self._encoder = encoder
        self._vectors = dict(zip(texts, vectors, strict=True))
        self._queries = {}

    def __getattr__(self, name):
        return getattr(self._encoder, name)

    def encode_document(self, texts, **options):
        known = all(text in self._vectors for text in texts) and len(texts)
        return np.stack([self._vectors[text] for text in texts]) if known else self._encoder.encode_document(texts)

    def encode_query(self, texts):
        unknown = [text for text in dict.fromkeys(texts) if text not in self._queries]
        self._queries.update(zip(unknown, self._encoder.encode_query(unknown), strict=True))
        return np.stack([self._queries[text] for text in texts])


@pytest.fixture(scope="module")
def scifact(data):
    return load_beir(data / "ir" / "scifact")


def figure(found, scifact):
    return measure_ir(as_run(found), scifact).figures["ndcg@10"]


def ndcg(retriever, scifact, mode):
    return figure(search_all(retriever, scifact, 11, mode=mode), scifact)


def test_words_find_what_those_of_bm25s_find(encoder, scifact):
    """In all documents; none is encoded, since words need no vectors."""
    texts = [document.full_text for document in scifact.documents]
    known = Encoded(encoder, texts, np.random.default_rng(0).normal(size=(len(texts), encoder.dim)))
    assert ndcg(MemoryIndex(known, scifact.documents), scifact, "sparse") == pytest.approx(68.6, abs=0.3)  # bm25s


@pytest.mark.timeout(900)  # encodes 800 abstracts
def test_scifact(encoder, scifact, tmp_path):
    judged = set().union(*scifact.qrels.values())
    judged_first = sorted(scifact.documents, key=lambda document: document.id not in judged)
    scifact = replace(scifact, documents=judged_first[:800])
    texts = [document.full_text for document in scifact.documents]
    known = Encoded(encoder, texts, encoder.encode_document(texts))
    index = MemoryIndex(known, scifact.documents)
    assert round(ndcg(index, scifact, "dense"), 1) == 81.0  # sentence-transformers: 80.97
    hybrid = ndcg(index, scifact, "hybrid")
    assert hybrid >= 85
    with Collection.open("scifact", path=tmp_path, encoder=known, chunking=False) as collection:
        assert collection.ingest(scifact.documents).new == 800
        vectors = zip(scifact.queries, known.encode_query(list(scifact.queries.values())), strict=True)
        by_vector = {query: collection.search_vector(vector, 11) for query, vector in vectors}
        assert round(figure(by_vector, scifact), 1) == 81.0
        # a collection corrects the spelling of texts, and knows its own scale of scores and weight of words
        assert ndcg(collection, scifact, "dense") == pytest.approx(80.8, abs=0.1)
        assert ndcg(collection, scifact, "sparse") == pytest.approx(82.6, abs=0.3)
        assert ndcg(collection, scifact, "hybrid") == pytest.approx(hybrid, abs=0.2)
