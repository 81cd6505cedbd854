"""Payloads of documents: plain JSON, or refused by the name of the key."""

from __future__ import annotations

import pytest

from twinvec import Document
from twinvec.errors import DocumentError
from twinvec.retrieval.documents import MAX_PAYLOAD_BYTES, json_payload


@pytest.mark.parametrize("value", [float("nan"), 10**30, [{"deep": float("inf")}], object(), "x" * MAX_PAYLOAD_BYTES])
def test_a_value_that_is_no_plain_json_is_named_by_its_key(value):
    with pytest.raises(DocumentError, match=r"document 'a': the payload has to be plain JSON .*: 'year': "):
        json_payload(Document("a", "tea", payload={"price": 0.5, "year": value, "worse": value}))


def test_values_that_are_too_much_together_blame_no_key():
    half = "x" * (MAX_PAYLOAD_BYTES // 2)
    with pytest.raises(DocumentError, match=r"mappings\): payload: 4,194,3\d\d bytes"):
        json_payload(Document("a", "tea", payload={"one": half, "two": half}))
