"""What a collection is asked: the hits, and what their collection knows of them."""

from __future__ import annotations

import json

import pytest

from twinvec_qdrant import Asked, Collection, search_as_asked, stored_documents
from twinvec_qdrant.asking import FoundHit
from words import WordEncoder

LONG = " ".join(f"certificate {row}." for row in range(40))


@pytest.mark.parametrize("chunking", [False, None])
@pytest.mark.parametrize("id", ["tls", "tls#renewal", "tls#3"])
@pytest.mark.parametrize("chunks", [False, True])
def test_the_source_of_a_hit_is_the_id_of_its_document(tmp_path, chunking, id, chunks):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(max_tokens=16), chunking=chunking) as opened:
        opened.ingest([(id, LONG)])
        (answer,) = search_as_asked(opened, ["certificate 7"], Asked("sparse", chunks=chunks))
    assert (len(answer.hits) > 1) == (chunks and chunking is None)
    for found in answer.hits:
        assert found.source == id
        assert FoundHit.of_fields(json.loads(json.dumps(found.as_fields())), chunks=chunks) == found


def test_a_document_is_found_by_an_id_that_looks_the_same(tmp_path):
    composed, apart = "r\u00e9sum\u00e9.md", "re\u0301sume\u0301.md"
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([(apart, "a life in short"), ("other", "a note")])
        found = stored_documents(opened, [composed, "other", "none"])
        assert [each["id"] for each in found["documents"]] == ["other", apart]
        assert found["missing"] == ["none"]
        assert [each["id"] for each in stored_documents(opened, [composed, apart])["documents"]] == [apart]
        assert stored_documents(opened, [7])["missing"] == ["7"]
        opened.ingest([(composed, "another one")])
        assert [each["id"] for each in stored_documents(opened, [composed])["documents"]] == [composed]
