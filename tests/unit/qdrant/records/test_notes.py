"""Notes: what may be written, and what is refused before anything is written."""

from __future__ import annotations

import pytest

from twinvec.errors import DocumentError, TextError


@pytest.mark.parametrize("value", [float("nan"), "\ud800", 2**70, object(), {1, 2}])
def test_what_is_no_plain_json_is_refused_and_named(collection, value):
    notes = collection.notes("memory")
    with pytest.raises(DocumentError, match=r"note 'b': it must be plain JSON"):
        notes.put({"a": {"right": 1}, "b": {"wrong": value}})
    assert list(notes.find()) == []


@pytest.mark.parametrize("fields", ["text", [("key", 1)], None])
def test_a_note_is_a_mapping(collection, fields):
    with pytest.raises(DocumentError, match="note 'a': expected a mapping"):
        collection.notes("memory").put({"a": fields})


@pytest.mark.parametrize("key", ["\ud800", 5])
def test_a_key_is_a_text_in_every_call(collection, key):
    notes = collection.notes("memory")
    for call in (lambda: notes.put({key: {}}), lambda: notes.get([key]), lambda: notes.delete([key])):
        with pytest.raises(TextError, match="note: key"):
            call()


@pytest.mark.parametrize("keys", ["ab", b"ab", None, 5])
def test_a_single_key_is_no_list_of_keys(collection, keys):
    notes = collection.notes("memory")
    notes.put({"a": {}, "b": {}, "ab": {}})
    for call in (notes.get, notes.delete):
        with pytest.raises(TextError, match="note: keys: expected a list of strings, got"):
            call(keys)
    with pytest.raises(DocumentError, match="expected a mapping from key to note"):
        notes.put(keys)
    assert len(list(notes.find())) == 3


def test_notes_come_back_as_they_were_written(collection):
    fields = {"text": "Größe", "number": 0.5, "many": [1, "a", None, {"deep": True}], "long": "x" * 5000}
    notes = collection.notes("memory")
    notes.put({"": fields, "b": {}})
    assert notes.get(["", "b", "none"]) == {"": fields, "b": {}}
