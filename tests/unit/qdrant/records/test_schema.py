"""What a collection keeps: nested payloads."""

from __future__ import annotations

import pytest

from twinvec.retrieval.documents import MAX_LEVELS
from twinvec_qdrant import Collection


@pytest.mark.parametrize("wrap", [lambda value: {"a": value}, lambda value: [value], lambda value: ["a", value, 1]])
def test_a_payload_that_the_engine_could_not_read_again_fails_alone(place, encoder, wrap):
    def nested(levels):
        value = 1
        for _ in range(levels):
            value = wrap(value)
        return value

    documents = [{"id": str(levels), "text": "tea", "deep": nested(levels)} for levels in (1, MAX_LEVELS)]
    too_deep = {"id": "too deep", "text": "tea", "deep": nested(MAX_LEVELS + 1)}
    with Collection.open("deep", encoder=encoder, **place) as collection:
        report = collection.ingest([too_deep, *documents])
        assert report.new == 2
        ((_, reason),) = report.failures
        assert "'deep': it is nested more than 100 levels deep" in reason
        assert {hit.id: hit.payload["deep"] for hit in collection.search("tea")} == {
            each["id"]: each["deep"] for each in documents
        }
        assert collection.verify().sound
