"""Payloads of documents: plain JSON, or refused by the name of the key."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from types import SimpleNamespace

import numpy as np
import pytest

from twinvec import Document
from twinvec.errors import DocumentError, InputError
from twinvec.retrieval.documents import MAX_PAYLOAD_BYTES, as_document, json_payload


@pytest.mark.parametrize("value", [float("nan"), 10**30, [{"deep": float("inf")}], object(), "x" * MAX_PAYLOAD_BYTES])
def test_a_value_that_is_no_plain_json_is_named_by_its_key(value):
    with pytest.raises(DocumentError, match=r"document 'a': the payload must be plain JSON .*: 'year': "):
        json_payload(Document("a", "tea", payload={"price": 0.5, "year": value, "worse": value}))


def test_values_that_are_too_much_together_blame_no_key():
    half = "x" * (MAX_PAYLOAD_BYTES // 2)
    with pytest.raises(DocumentError, match=r"mappings\): payload: 4,194,3\d\d bytes"):
        json_payload(Document("a", "tea", payload={"one": half, "two": half}))


@pytest.mark.parametrize("moment", ["NaT", "30000-01-01"])
def test_moments_of_numpy_that_no_date_can_hold_are_refused(moment):
    with pytest.raises(DocumentError, match="'value': "):
        json_payload(Document("a", "tea", payload={"value": np.datetime64(moment, "D")}))


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (date(2024, 5, 1), "2024-05-01"),
        (datetime(2024, 5, 1, 10, 30, tzinfo=UTC), "2024-05-01T10:30:00+00:00"),
        (time(10, 30), "10:30:00"),
        (np.datetime64("2024-05-01T10:30", "ns"), "2024-05-01T10:30:00"),
        (np.int64(7), 7),
        (np.float32(1.5), 1.5),
        (np.bool_(True), True),
        (np.str_("x"), "x"),
        ([{"on": date(2024, 5, 1), "sizes": (np.int8(1), 2.5)}], [{"on": "2024-05-01", "sizes": [1, 2.5]}]),
    ],
)
def test_dates_are_stored_as_text_and_scalars_of_numpy_as_values(value, stored):
    found = json_payload(Document("a", "tea", payload={"value": value}))["value"]
    assert found == stored
    assert type(found) is type(stored)


def test_a_key_of_the_payload_counts_more_than_a_key_beside_it():
    found = as_document({"id": "a", "text": "tea", "lang": "en", "year": 1, "payload": {"lang": "de", "x": 2}}, 0)
    assert found.payload == {"lang": "de", "year": 1, "x": 2}


@pytest.mark.parametrize("key", ["title", "payload"])
def test_an_array_in_place_of_a_title_or_payload_is_refused_as_a_fault_of_its_document(key):
    with pytest.raises(InputError, match=r"document '?0'?: .* got ndarray"):
        as_document({"id": "0", "text": "tea", key: np.array(["a", "b"])}, 0)


def test_rows_of_a_table_are_documents():
    pandas = pytest.importorskip("pandas")
    day = pandas.Timestamp("2024-05-01T10:30")
    table = pandas.DataFrame({"id": [1, 2], "text": ["x", "y"], "day": [day, pandas.NaT], "price": [1.5, np.nan]})
    whole, empty = (as_document(row, 0) for row in table.to_dict("records"))
    assert (whole.id, json_payload(whole)) == ("1", {"day": "2024-05-01T10:30:00", "price": 1.5})
    for key, shown in (("day", "NaT"), ("price", "NaN")):
        alone = Document("b", "y", payload={key: empty.payload[key]})
        with pytest.raises(DocumentError, match=rf"document 'b': .*: '{key}': {shown} is .*; give null .* or leave"):
            json_payload(alone)


@pytest.mark.parametrize("value", ["pandas.NA", float("-inf"), [{"deep": np.float32("nan")}]])
def test_a_number_that_is_missing_is_named_with_what_to_give(value):
    if value == "pandas.NA":
        value = pytest.importorskip("pandas").NA
    with pytest.raises(DocumentError, match=r"'price': \S+ is not a JSON value; give null \(None in Python\) or leave"):
        json_payload(Document("a", "tea", payload={"ok": 1, "price": value, "other": object()}))


def test_hidden_keys_of_a_wrong_type_are_refused():
    with pytest.raises(DocumentError, match=r"document 'a': hidden must be HiddenKeys\(.*\), got \('day',\)"):
        as_document(Document("a", "tea", hidden=("day",)), 0)


def test_a_document_of_langchain_may_have_dates():
    one, same, other = (
        as_document(SimpleNamespace(page_content="tea", metadata={"on": date(2024, 5, day)}), 0) for day in (1, 1, 2)
    )
    assert one.id == same.id != other.id
    assert json_payload(one) == {"on": "2024-05-01"}
