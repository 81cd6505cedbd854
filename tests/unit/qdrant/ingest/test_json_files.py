"""JSON files: those with records give a document for each object, all others are one text."""

from __future__ import annotations

import json
import os
from operator import length_hint

import pytest

from twinvec_qdrant import ChunkSettings, Collection, Failure, RecordColumns, Root, read_source
from twinvec_qdrant.ingest.reading.records import json_files
from words import WordEncoder

TEAS = [
    {"id": "green", "text": "Green tea is steamed.", "title": "Green", "year": 2020},
    {"id": 2, "text": "Black tea."},
]
ROWS = [("green", "Green", "Green tea is steamed.", {"year": 2020}), ("2", "", "Black tea.", {})]
FAILED = "bad.json, object "
UNCUT = ChunkSettings(enabled=False)


def rows(source, **options):
    return [(each.id, each.title, each.text, dict(each.payload)) for each in read_source(source, **options)]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(TEAS),
        json.dumps(TEAS, indent=2),
        "\ufeff\n " + json.dumps(TEAS),
        "\n".join(map(json.dumps, TEAS)),
        "".join(json.dumps(each) + "\r\n" for each in TEAS),
    ],
    ids=["array", "indented", "byte order mark", "lines", "lines of Windows"],
)
def test_objects_are_documents(content, tmp_path):
    path = tmp_path / "teas.json"
    path.write_text(content)
    assert rows(path) == ROWS
    assert length_hint(read_source(path)) == 2
    assert [row[0] for row in rows(tmp_path)] == ["teas.json/green", "teas.json/2"]
    reading = Root(str(path)).read()
    list(reading)
    assert 0 < reading.done <= reading.size == path.stat().st_size


@pytest.mark.parametrize("indent", [None, 2])
def test_one_object_is_one_document(indent, tmp_path):
    path = tmp_path / "tea.json"
    path.write_text(json.dumps(TEAS[0], indent=indent))
    assert rows(path) == ROWS[:1]


@pytest.mark.parametrize(
    "content",
    [
        '{"name": "twinvec", "private": true}',
        '[{"text": "no id"}]',
        '[{"id": "a", "text": ["not", "a", "text"]}]',
        '["a", {"id": "a", "text": "Tea"}]',
        "[]",
        '// settings\n[{"id": "a", "text": "Tea"}]',
        '[{"id": "a", "te',
    ],
)
def test_other_json_is_one_text(content, tmp_path):
    path = tmp_path / "a.json"
    path.write_text(content)
    assert rows(path) == [("a.json", "", content, {"path": "a.json", "format": "text"})]
    assert length_hint(read_source(path)) == 1


def test_records_false_reads_a_text(tmp_path):
    path = tmp_path / "teas.json"
    path.write_text(json.dumps(TEAS))
    assert rows(path, records=False)[0][0] == "teas.json"


def test_columns_have_names_of_ones_own(tmp_path):
    path = tmp_path / "faq.json"
    path.write_text(json.dumps([{"key": "k1", "question": "What is tea?", "answer": "A drink."}]))
    assert [row[0] for row in rows(path)] == ["faq.json"]
    columns = RecordColumns(id="key", text=("question", "answer"))
    assert rows(path, columns=columns) == [("k1", "", "What is tea?\n\nA drink.", {})]


def test_a_bad_object_does_not_stop_the_others(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(
        json.dumps([TEAS[0], 5, {"text": "no id"}, {"id": "n", "text": None}, {"id": "e", "text": " "}, TEAS[1]])
    )
    read = list(read_source(path))
    assert [each.id for each in read if not isinstance(each, Failure)] == ["green", "2"]
    assert [(each.source, each.reason, each.hides) for each in read if isinstance(each, Failure)] == [
        (f"{FAILED}2", 'expected an object such as {"id": ..., "text": ...}, got int', True),
        (f"{FAILED}3", "no 'id' among the keys ['text']", True),
        (f"{FAILED}4", "'text' is null; expected a string", True),
        ("e", "holds no text", False),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"id": "a", "text": "Tea"}, {"id": "b", "te', "not JSON: Unterminated string"),
        (b'[{"id": "a", "text": "Tea"}, {"id": "b", "n": NaN}]', "not JSON: NaN is not a JSON value"),
        (b'[{"id": "a", "text": "Tea"}, {"id": "b", "text": "\xff"}]', "0xff"),
        (b'[{"id": "a", "text": "Tea"}, ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_file_hides_its_documents(content, reason, tmp_path):
    path = tmp_path / "teas.json"
    path.write_text(json.dumps(TEAS))
    with Collection.open("teas", encoder=WordEncoder(), path=tmp_path / "store", chunking=UNCUT) as collection:
        collection.ingest(Root(str(path)), prune=True)
        path.write_bytes(content)
        (failure,) = read_source(path)
        assert reason in failure.reason
        report = collection.ingest(Root(str(path)), prune=True, allow_all_failed=True)
        assert (report.failed, report.deleted, collection.count()) == (1, 0, 2)


def test_a_file_that_is_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_files, "MAX_CONVERTED_BYTES", 50)
    path = tmp_path / "teas.json"
    path.write_text(json.dumps(TEAS))
    (failure,) = read_source(path)
    assert failure.reason.endswith("more than the limit of 50; split it first")
    path.write_text("\n".join(map(json.dumps, TEAS)))  # lines are read one by one
    assert rows(path) == ROWS


def test_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    (failure,) = read_source(tmp_path / "a.json")
    assert "not a regular file" in failure.reason


def test_an_older_collection_keeps_its_text(tmp_path):
    path = tmp_path / "teas.json"
    path.write_text(json.dumps(TEAS))
    reading = Root(str(path)).read()
    reading.read_by(5)
    assert [each.id for each in reading] == ["teas.json"]
