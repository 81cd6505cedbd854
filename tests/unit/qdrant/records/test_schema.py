"""What a collection keeps: payloads that are no plain JSON, and nested ones."""

from __future__ import annotations

import pytest

from twinvec import Document
from twinvec.errors import DocumentError
from twinvec_qdrant import Collection
from twinvec_qdrant.records.schema import MAX_LEVELS, MAX_PAYLOAD_BYTES, json_payload


@pytest.mark.parametrize("value", [float("nan"), 10**30, [{"deep": float("inf")}], object(), "x" * MAX_PAYLOAD_BYTES])
def test_a_value_that_is_no_plain_json_is_named_by_its_key(value):
    with pytest.raises(DocumentError, match=r"document 'a': the payload has to be plain JSON .*: 'year': "):
        json_payload(Document("a", "tea", payload={"price": 0.5, "year": value, "worse": value}))


def test_values_that_are_too_much_together_blame_no_key():
    half = "x" * (MAX_PAYLOAD_BYTES // 2)
    with pytest.raises(DocumentError, match=r"mappings\): payload: 4,194,3\d\d bytes"):
        json_payload(Document("a", "tea", payload={"one": half, "two": half}))


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
        assert "'deep': more than 100 lists and mappings in one another" in reason
        assert {hit.id: hit.payload["deep"] for hit in collection.search("tea")} == {
            each["id"]: each["deep"] for each in documents
        }
        assert collection.verify().sound
