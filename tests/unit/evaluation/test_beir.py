"""Retrieval sets in the BEIR layout."""

from __future__ import annotations

import pytest

from twinvec.errors import InputError
from twinvec.evaluation.beir import load_beir


def append(path, line):
    with path.open("a") as file:
        file.write(line + "\n")


def test_a_set_is_read_whole(beir):
    loaded = load_beir(beir)
    assert loaded.name == "small"
    assert [document.id for document in loaded.documents] == ["cats", "dogs", "moon", "tides", "bread"]
    assert loaded.documents[2].title == "The Moon"
    assert loaded.qrels["q1"] == {"moon": 2, "tides": 1}


def test_only_the_judged_queries_of_the_split_count(beir):
    append(beir / "queries.jsonl", '{"_id": "q9", "text": "of another split"}')
    assert list(load_beir(beir).queries) == ["q1", "q2", "q3"]


def test_a_judged_query_without_a_text_is_refused(beir):
    append(beir / "queries.jsonl", '{"_id": "q9", "text": " \\n"}')
    assert list(load_beir(beir).queries) == ["q1", "q2", "q3"], "nobody judges it"
    append(beir / "qrels/test.tsv", "q9\tcats\t1")
    with pytest.raises(InputError, match=r"queries.jsonl:4: the text of the judged query 'q9' is blank"):
        load_beir(beir)


HINT = "; twinvec evaluate --collection reads the documents from a collection instead"


@pytest.mark.parametrize(("name", "hint"), [("corpus.jsonl", HINT), ("queries.jsonl", "")])
def test_a_missing_file_is_named_with_the_layout(beir, name, hint):
    (beir / name).unlink()
    layout = "the BEIR layout is a folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"
    with pytest.raises(InputError, match=f"{name}: missing; {layout}{hint}$"):
        load_beir(beir, corpus_optional=name == "queries.jsonl")


def test_the_documents_that_a_collection_holds_may_be_missing(beir):
    append(beir / "qrels/test.tsv", "q1\tnowhere\t1")
    with pytest.raises(InputError, match="'nowhere' is not in corpus"):
        load_beir(beir, corpus_optional=True)  # a corpus that is there is used
    (beir / "corpus.jsonl").unlink()
    loaded = load_beir(beir, corpus_optional=True)
    assert (loaded.documents, list(loaded.queries)) == ([], ["q1", "q2", "q3"])
    assert loaded.qrels["q1"] == {"moon": 2, "tides": 1, "nowhere": 1}


def test_ids_may_be_whole_numbers(beir):
    append(beir / "queries.jsonl", '{"_id": 4, "text": "a number"}')
    append(beir / "corpus.jsonl", '{"_id": 5, "text": "another number"}')
    append(beir / "qrels/test.tsv", "4\t5\t1")
    assert load_beir(beir).qrels["4"] == {"5": 1}


def test_a_missing_split_names_those_there(beir):
    with pytest.raises(InputError, match=r"dev.tsv: missing; the folder has the splits test"):
        load_beir(beir, "dev")


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("qrels/test.tsv", "q1\tnowhere\t1", r"test.tsv:6: the document 'nowhere' is not in corpus.jsonl"),
        ("qrels/test.tsv", "q9\tcats\t1", r"test.tsv:6: the query 'q9' is not in queries.jsonl"),
        ("qrels/test.tsv", "q1\tcats\thigh", r"test.tsv:6: score 'high' is not a whole number"),
        ("qrels/test.tsv", "q1\tcats\t1609459200", r"test.tsv:6: score '1609459200' is not .* at most nine digits"),
        ("qrels/test.tsv", "q1\tcats\t1000001", r"test.tsv:6: the relevance 1000001 is above 1,000,000"),
        ("qrels/test.tsv", "q1\tmoon\t1", r"test.tsv:6: query 'q1' and document 'moon' are judged twice"),
        ("qrels/test.tsv", "q1\tcats", r"test.tsv:6: 2 fields, expected 3"),
        ("corpus.jsonl", '{"_id": "cats", "text": "again"}', r"corpus.jsonl:6: the id 'cats' is used twice"),
        ("corpus.jsonl", '{"_id": "x", "title": "no text"}', r"corpus.jsonl:6: document 5: no 'text'"),
        ("corpus.jsonl", '{"_id": "x", "text": "cut of', r"corpus.jsonl:6: not JSON"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', r"queries.jsonl:4: the id 'q1' is used twice"),
        ("queries.jsonl", '{"_id": "q4"}', r"queries.jsonl:4: no 'text'"),
    ],
)
def test_what_does_not_fit_is_named_by_file_and_line(beir, file, line, said):
    append(beir / file, line)
    with pytest.raises(InputError, match=said):
        load_beir(beir)


def test_a_set_without_a_relevant_document_is_refused(make_beir):
    folder = make_beir("none", qrels={"q1": {"moon": 0, "cats": -1}, "q2": {"dogs": 0}})
    with pytest.raises(InputError, match=r"test.tsv: no judgement is above 0, so no document is relevant"):
        load_beir(folder)


@pytest.mark.parametrize("file", ["qrels/test.tsv", "corpus.jsonl", "queries.jsonl"])
def test_an_empty_file_is_refused(beir, file):
    (beir / file).write_text("")
    with pytest.raises(InputError, match=f"{file}: the file is empty"):
        load_beir(beir)
