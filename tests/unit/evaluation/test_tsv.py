"""Rows of files: what is read, and errors that name file and line."""

from __future__ import annotations

import csv

import pytest

from twinvec.errors import InputError
from twinvec.evaluation.tsv import data_name, parse_number, read_nonblank_texts, read_table
from twinvec.support.lines import read_jsonl
from twinvec.text import MAX_TEXT_BYTES

COLUMNS = ("score", "sentence1", "sentence2")


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_columns_are_picked_by_name_and_quotes_are_text(tmp_path):
    path = write(tmp_path / "a.tsv", 'id\tsentence2\tscore\tsentence1\n7\t"b\t4.5\ta"\n')
    assert list(read_table(path, COLUMNS)) == [(f"{path}:2", ("4.5", 'a"', '"b'))]


@pytest.mark.parametrize(
    ("content", "place", "said"),
    [
        ("", "", "empty"),
        ("score\tsentence1\tsentence2\n", "", "no rows"),
        ("score\tsentence1\n1\ta\n", ":1", "no column 'sentence2'"),
        ("score\tsentence1\tsentence2\n1\ta\tb\n2\ta\n", ":3", "2 fields, expected 3"),
        ("score\tsentence1\tsentence2\n1\ta\tb\tc\n", ":2", "4 fields, expected 3"),
        (b"score\tsentence1\tsentence2\n1\ta\tb\n2\t\xff\tb\n", ":3", "not UTF-8"),
    ],
)
def test_a_malformed_table_is_refused_by_file_and_line(tmp_path, content, place, said):
    path = write(tmp_path / "a.tsv", content)
    with pytest.raises(InputError, match=said) as error:
        list(read_table(path, COLUMNS))
    assert f"{path}{place}: " in str(error.value)


def test_a_field_may_be_as_long_as_a_text(tmp_path):
    before, header = csv.field_size_limit(), "score\tsentence1\tsentence2\n"
    long = "x" * 200_000
    path = write(tmp_path / "a.tsv", f"{header}1\t{long}\tb\n")
    assert list(read_table(path, COLUMNS)) == [(f"{path}:2", ("1", long, "b"))]
    path = write(tmp_path / "b.tsv", f"{header}1\t{'x' * (MAX_TEXT_BYTES + 1)}\tb\n")
    with pytest.raises(InputError, match=r"b\.tsv:2: field larger"):
        list(read_table(path, COLUMNS))
    assert csv.field_size_limit() == before


def test_a_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        list(read_table(tmp_path / "none.tsv", COLUMNS))


@pytest.mark.parametrize(
    ("content", "place", "said"),
    [
        ("", "", "empty"),
        ('{"a": 1}\n{"a": \n', ":2", "not JSON"),
        ('{"a": 1}\n\n[1]\n', ":3", "expected a JSON object, got list"),
        ("[" * 100_000 + "\n", ":1", "not JSON"),
        ('{"a": 1}\n{"a": 1, "b": 2, "a": 3}\n', ":2", "the key 'a' comes twice"),
        ('{"a": {"b": 1, "b": 1}}\n', ":1", "the key 'b' comes twice"),
    ],
)
def test_malformed_json_lines_are_refused_by_file_and_line(tmp_path, content, place, said):
    path = write(tmp_path / "a.jsonl", content)
    with pytest.raises(InputError, match=said) as error:
        list(read_jsonl(path))
    assert f"{path}{place}: " in str(error.value)


@pytest.mark.parametrize("text", ["", "high", "nan", "inf", "1,5", "0x10"])
def test_a_score_is_a_finite_number(text):
    with pytest.raises(InputError, match=r"f.tsv:2: score .* is not a number"):
        parse_number(text, "f.tsv:2")


def test_texts_come_from_lines_or_from_json(tmp_path):
    assert read_nonblank_texts(write(tmp_path / "a.txt", "one\r\n\n two \n")) == ["one", " two "]
    assert read_nonblank_texts(write(tmp_path / "a.jsonl", '{"text": "one\\ntwo"}\n')) == ["one\ntwo"]
    with pytest.raises(InputError, match=r"b.txt: the file is empty"):
        read_nonblank_texts(write(tmp_path / "b.txt", "\n \n"))
    with pytest.raises(InputError, match=r"b.jsonl:2: no 'text'"):
        read_nonblank_texts(write(tmp_path / "b.jsonl", '{"text": "a"}\n{"body": "b"}\n'))
    with pytest.raises(InputError, match=r"c.jsonl:1: 'text': lone surrogate"):
        read_nonblank_texts(write(tmp_path / "c.jsonl", '{"text": "\\ud800"}\n'))


def test_results_are_named_after_folder_and_file(tmp_path):
    (tmp_path / "stsb").mkdir()
    assert data_name(write(tmp_path / "stsb" / "test.tsv", "")) == "stsb/test"
    assert data_name(tmp_path / "stsb") == "stsb"
