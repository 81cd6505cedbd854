"""The published figure of the default model on SciFact, and what words add to it, in memory and in a collection."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec import MemoryIndex
from twinvec.evaluation.beir import load_beir
from twinvec.evaluation.ir import as_run, measure_ir, search_all
from twinvec_qdrant import Collection

pytestmark = [pytest.mark.data, pytest.mark.slow]


class Encoded:
    """An encoder that knows the vectors of the documents already."""

    def __init__(self, encoder, texts):
        self._encoder = encoder
        self._vectors = dict(zip(texts, encoder.encode_document(texts), strict=True))

    def __getattr__(self, name):
        return getattr(self._encoder, name)

    def encode_document(self, texts, **options):
        known = all(text in self._vectors for text in texts) and len(texts)
        return np.stack([self._vectors[text] for text in texts]) if known else self._encoder.encode_document(texts)


@pytest.mark.timeout(1800)  # encodes 5,183 abstracts
def test_scifact(encoder, data, tmp_path):
    scifact = load_beir(data / "ir" / "scifact")
    known = Encoded(encoder, [document.full_text for document in scifact.documents])

    def ndcg(retriever, **options):
        return figure(search_all(retriever, scifact, 11, **options))

    def figure(found):
        return measure_ir(as_run(found), scifact).figures["ndcg@10"]

    index = MemoryIndex(known, scifact.documents)
    assert round(ndcg(index, mode="dense"), 1) == 64.5  # published: 64.51
    assert ndcg(index, mode="sparse") == pytest.approx(68.6, abs=0.3)  # bm25s
    hybrid = ndcg(index, mode="hybrid")
    assert hybrid >= 71
    with Collection.open("scifact", path=tmp_path, encoder=known, chunking=False) as collection:
        assert collection.ingest(scifact.documents).new == 5183
        vectors = zip(scifact.queries, known.encode_query(list(scifact.queries.values())), strict=True)
        assert round(figure({query: collection.search_vector(vector, 11) for query, vector in vectors}), 1) == 64.5
        # a collection corrects the spelling of texts, and knows its own scale of scores and weight of words
        assert ndcg(collection, mode="dense") == pytest.approx(64.9, abs=0.1)
        assert ndcg(collection, mode="sparse") == pytest.approx(68.6, abs=0.3)
        assert ndcg(collection, mode="hybrid") == pytest.approx(hybrid + 0.6, abs=0.2)
