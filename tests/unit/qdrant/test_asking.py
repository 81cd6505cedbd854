"""What a collection is asked: the hits, and what their collection knows of them."""

from __future__ import annotations

import json

import pytest

from twinvec_qdrant import Asked, Collection, search_as_asked
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
