"""Rows from files: every format, columns by another name, errors that name file, row and field; pairs of rows."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from twinvec.errors import ConfigurationError, DocumentError
from twinvec.training.data.rows import PairRows, open_rows
from twinvec.training.data.text_hash import text_hash
from twinvec.training.settings import Source

PAIRS = [{"anchor": "null", "positive": 'a "quoted" word'}, {"anchor": "naïve, it is", "positive": "NA"}]


def write(path, rows):
    match path.suffix:
        case ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        case ".parquet":
            pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        case ".tsv":
            path.write_text("\n".join(["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)]) + "\n")
        case ".csv":
            quoted = [",".join('"' + value.replace('"', '""') + '"' for value in row.values()) for row in rows]
            path.write_text("\n".join([",".join(rows[0]), *quoted]) + "\n")
    return path


def read(path, objective="info_nce", **options):
    rows = open_rows(Source(path=path, **options), objective, path.parent / "cache")
    return rows.rows(range(len(rows)))


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_texts_come_out_of_every_format_as_they_went_in(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", PAIRS)
    rows = open_rows(Source(path=path), "info_nce", tmp_path / "cache")
    assert rows.rows([1, 0]) == [PAIRS[1], PAIRS[0]]
    assert rows.hashes.tolist() == [[text_hash(row["anchor"]), text_hash(row["positive"])] for row in PAIRS]
    assert rows.name == "rows"


def test_reading_shows_its_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("twinvec.support.progress._LINE_SECONDS", 0)
    path = write(tmp_path / "rows.jsonl", PAIRS * 600)
    for progress, lines in ((False, ""), (True, "Reading: 1,000 of 1,200 rows\nReading: 1,200 of 1,200 rows\n")):
        assert len(open_rows(Source(path=path), "info_nce", tmp_path / "cache", progress=progress)) == 1200
        assert capsys.readouterr().err == lines


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_endings_may_be_in_capitals(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", PAIRS)
    assert read(path.rename(tmp_path / f"ROWS{suffix.upper()}")) == PAIRS


def test_columns_may_have_other_names(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"q": "a", "yes": "b", "no": "c", "never": ["d", ""], "id": 7}])
    found = read(path, columns={"anchor": "q", "positive": "yes", "negatives": ["no", "never"]})
    assert found == [{"anchor": "a", "positive": "b", "negatives": ["c", "d"]}]


ARMS = {"anchor": "a", "positive": "b"}


def test_scores_of_a_teacher_belong_to_the_positive_and_to_each_negative(tmp_path):
    rows = [
        {**ARMS, "negatives": ["c", "d"], "scores": [3, "-1.5", 0.5]},
        {**ARMS, "negatives": "c", "scores": 2.5},
        {**ARMS, "negatives": ["c"], "scores": [-4]},
    ]
    path = write(tmp_path / "rows.jsonl", rows)
    opened = open_rows(Source(path=path), "margin_mse", tmp_path / "cache")
    assert [row["scores"] for row in opened.rows(range(3))] == [[3.0, -1.5, 0.5], [2.5, 0.0], [-4.0, 0.0]]
    assert opened.largest_margin == 4.5


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_negatives_and_their_scores_may_lie_in_several_columns(tmp_path, suffix):
    names = ("anchor", "positive", "negative_1", "negative_2", "score", "score_1", "score_2")
    empty = "" if suffix == ".csv" else None
    rows = [
        dict(zip(names, values, strict=True))
        for values in (("a", "b", "c", "d", "1", "2", "3"), ("a", "b", "c", empty, "1", "2", empty))
    ]
    columns = {"negatives": ["negative_1", "negative_2"], "scores": ["score", "score_1", "score_2"]}
    found = read(write(tmp_path / f"rows{suffix}", rows), "margin_mse", columns=columns)
    assert [(row["negatives"], row["scores"]) for row in found] == [(["c", "d"], [1, 2, 3]), (["c"], [1, 2])]


@pytest.mark.parametrize(
    ("negatives", "scores", "message"),
    [
        (["c", "d"], [1, 2], "expected 3 scores, of the positive and of each negative, got 2"),
        (["c", "d"], [1], "expected 3 scores, of the positive and of each negative, got 1"),
        (["c"], [1, 2, 3], "expected 2 scores, of the positive and of each negative, got 3"),
        (["c"], [], "expected 2 scores, of the positive and of each negative, got 0"),
        (["c"], [1, "high"], "expected a number, got 'high'"),
        (["c"], [1, float("nan")], "expected a number, got nan"),
        ([], [1], "the row has no negatives; 'twinvec mine' finds some, or leave the row out"),
    ],
)
def test_scores_that_do_not_fit_the_negatives_are_refused(tmp_path, negatives, scores, message):
    good = {**ARMS, "negatives": ["c"], "scores": [1, 2]}
    path = tmp_path / "rows.parquet"
    if all(isinstance(score, int | float) for score in scores):
        write(path, [good, {**ARMS, "negatives": negatives, "scores": scores}])
    else:
        path = write(path.with_suffix(".jsonl"), [good, {**ARMS, "negatives": negatives, "scores": scores}])
    with pytest.raises(DocumentError, match=re.escape(f"row 2, field 'scores': {message}")):
        read(path, "margin_mse")


def test_scores_are_scaled_to_0_to_1(tmp_path):
    path = write(tmp_path / "rows.tsv", [{"score": "3.5", "sentence1": "a", "sentence2": "b"}])
    assert read(path, "cosine_regression", score_range=(1, 5))[0]["score"] == pytest.approx(0.625)
    assert read(path, "sts", score_range=None)[0]["score"] == 3.5


@pytest.mark.parametrize(
    ("objective", "good", "bad", "message"),
    [("cosine_regression", "-1", "5", "from -1 to 1"), ("graded", "1", "-0.5", "from 0 to 1")],
)
def test_scores_as_they_are_must_be_what_the_objective_takes(tmp_path, objective, good, bad, message):
    path = write(tmp_path / "rows.tsv", [{"score": score, **SCORED} for score in (good, bad)])
    assert read(path, objective, score_range=None, limit=1)[0]["score"] == float(good)
    with pytest.raises(
        DocumentError, match=rf"row 2, field 'score': .* {message} \(score_range is null\), got '{bad}'"
    ):
        read(path, objective, score_range=None)


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
@pytest.mark.parametrize("wrong", ["a b c", "a"])
@pytest.mark.parametrize("before", [[], ["x y"]], ids=["the first row", "a later row"])
def test_a_row_with_more_or_fewer_fields_than_the_header_is_named(tmp_path, suffix, separator, wrong, before):
    path = tmp_path / f"rows{suffix}"
    path.write_text("\n".join(["anchor positive", "", *before, wrong, wrong]).replace(" ", separator) + "\n")
    message = rf"row {len(before) + 1}: has {len(wrong.split())} fields, but the header has 2: anchor, positive"
    with pytest.raises(DocumentError, match=message):
        read(path)


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ";"), (".csv", "\t"), (".csv", "|"), (".tsv", ",")])
def test_fields_that_another_character_separates_are_told(tmp_path, suffix, separator):
    path = tmp_path / f"rows{suffix}"
    path.write_text(f"anchor{separator}positive\nwell, and\twhy;because\n")
    with pytest.raises(DocumentError, match=r"header has one field, .*; separate the fields of a \.csv file by commas"):
        read(path)


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_two_columns_of_one_name_are_refused(tmp_path, suffix, separator):
    path = tmp_path / f"rows{suffix}"
    path.write_text("anchor positive anchor\na b c\n".replace(" ", separator))
    with pytest.raises(DocumentError, match=rf"rows\{suffix}: two columns are called 'anchor'"):
        read(path)


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
@pytest.mark.parametrize(
    "table", ["|anchor|positive\n0|a|b\n", "anchor|positive||\na|b||\n", "\n|anchor|positive|\n|a|b|\n"]
)
def test_columns_without_a_name_do_no_harm(tmp_path, suffix, separator, table):
    path = tmp_path / f"rows{suffix}"
    path.write_text(table.replace("|", separator))
    assert read(path) == [PAIR]


def test_a_byte_order_mark_is_no_part_of_the_header(tmp_path):
    for name, content in (("rows.csv", '"anchor",positive\na,b\n'), ("rows.tsv", "anchor\tpositive\na\tb\n")):
        (tmp_path / name).write_text(content, encoding="utf-8-sig")
        assert read(tmp_path / name) == [PAIR]


def test_a_long_text_of_a_table_is_read(tmp_path):
    path = write(tmp_path / "rows.csv", [{**PAIR, "positive": "long " * 50_000}])
    assert read(path)[0]["positive"] == "long " * 50_000


def test_texts_that_look_like_dates_stay_texts(tmp_path):
    dates = [{"anchor": f"2020-01-0{n}", "positive": "b", "negatives": ["2021-01-01T10:00:00Z"]} for n in (1, 2)]
    path = write(tmp_path / "rows.jsonl", dates)
    assert read(path) == dates
    assert read(path, limit=1) == dates[:1]
    dates[0]["anchor"] = "1999-01-01"
    assert read(write(path, dates)) == dates  # not the copy of before


LONG = "word " * 200_000  # twelve of them are more than the ten megabytes that the library looks at for types


@pytest.mark.parametrize(
    ("objective", "first", "last"),
    [
        ("info_nce", {}, {"negatives": ["n"]}),
        ("info_nce", {"negatives": []}, {"negatives": ["n"]}),
        ("info_nce", {"note": None}, {"note": "read by nobody"}),
        ("graded", {"score": 1}, {"score": 0.5}),
    ],
    ids=["no negatives", "empty negatives", "an unused column", "whole scores"],
)
def test_a_column_may_change_its_type_late_in_a_long_file(tmp_path, objective, first, last):
    texts = ("anchor", "positive") if objective == "info_nce" else ("sentence1", "sentence2")
    row = {name: name for name in texts}
    path = write(tmp_path / "rows.jsonl", [*[{**row, texts[1]: LONG, **first}] * 12, {**row, **last}])
    rows = open_rows(Source(path=path), objective, tmp_path / "cache")
    assert rows.rows([12]) == [{**row, **{name: value for name, value in last.items() if name != "note"}}]
    assert rows.rows([0])[0][texts[1]] == LONG


def test_blank_lines_do_not_count(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('\n{"anchor": "2020-01-01", "positive": "b"}\n\n{"anchor": "2020-01-01", "positive": ""}\n')
    with pytest.raises(DocumentError, match="row 2, field 'positive'"):
        read(path)
    path.write_text('\n{"anchor": "a", "positive": "b"}\n\n{"anchor": \n')
    with pytest.raises(DocumentError, match="row 2: not JSON"):
        read(path)


def test_labels_get_numbers_in_the_order_of_their_names(tmp_path):
    names = ["neutral", "entailment", "neutral"]
    path = write(
        tmp_path / "rows.jsonl",
        [{"sentence1": str(n), "sentence2": "b", "label": name} for n, name in enumerate(names)],
    )
    rows = open_rows(Source(path=path), "softmax", tmp_path / "cache")
    assert rows.labels == ("entailment", "neutral")
    assert [row["label"] for row in rows.rows(range(3))] == [1, 0, 1]
    shared = replace(rows, labels=("contradiction", "entailment", "neutral"))
    assert [row["label"] for row in shared.rows(range(3))] == [2, 1, 2]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_labels_may_be_whole_numbers_of_any_type(tmp_path, suffix):
    rows = [{**SCORED, "label": label} for label in (1.0, 0.0, 2.0)]
    found = open_rows(Source(path=write(tmp_path / f"rows{suffix}", rows)), "softmax", tmp_path / "cache")
    assert found.labels == ("0", "1", "2")
    with pytest.raises(DocumentError, match=r"row 2, field 'label': expected a text or a whole number, got 0\.5"):
        read(write(tmp_path / f"half{suffix}", [rows[0], {**SCORED, "label": 0.5}]), "softmax")


def test_names_that_a_file_has_for_its_labels_are_told(tmp_path, caplog):
    texts = datasets.Value("string")
    features = {"sentence1": texts, "sentence2": texts, "gold": datasets.ClassLabel(names=["yes", "no"])}
    rows = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "gold": [1, 0]}
    path = tmp_path / "rows.parquet"
    datasets.Dataset.from_dict(rows, features=datasets.Features(features)).to_parquet(path)
    found = open_rows(Source(path=path, columns={"label": "gold"}), "softmax", tmp_path / "cache")
    assert found.labels == ("0", "1"), "what is trained stays as it is"
    named = "rows.parquet: the file has names for the numbers in 'gold', but softmax learns the numbers: "
    assert f"{named}0 is 'yes', 1 is 'no'" in caplog.text
    caplog.clear()
    open_rows(Source(path=path, columns={"label": "gold"}), "contrastive", tmp_path / "cache")
    assert not caplog.records


def test_a_limit_keeps_the_first_rows(tmp_path):
    assert read(write(tmp_path / "rows.jsonl", PAIRS), limit=1) == PAIRS[:1]


PAIR = {"anchor": "a", "positive": "b"}
SCORED = {"sentence1": "a", "sentence2": "b"}
BAD_ROWS = {
    "an empty text": ("info_nce", {**PAIR, "positive": ""}, "field 'positive': expected a text, got nothing"),
    "a blank text": ("info_nce", {**PAIR, "anchor": " \n"}, "field 'anchor': expected a text"),
    "no text": ("info_nce", {"anchor": "a"}, "field 'positive': expected a text, got nothing"),
    "a score that is no number": (
        "graded",
        {**SCORED, "score": "high"},
        "field 'score': expected a number, got 'high'",
    ),
    "a score in Python's notation": (
        "graded",
        {**SCORED, "score": "0_1"},
        "field 'score': expected a number, got '0_1'",
    ),
    "a score out of range": ("graded", {**SCORED, "score": "5"}, r"field 'score': .* 0 to 1 \(score_range\)"),
    "a text that is a number": ("info_nce", {**PAIR, "positive": 7}, "field 'positive': expected a text, got 7"),
    "a negative that is none": (
        "info_nce",
        {**PAIR, "negatives": ["a", {"text": "b"}]},
        "field 'negatives': expected a text, got {'text': 'b'}",
    ),
    "a score that is too large": ("graded", {**SCORED, "score": 10**400}, "field 'score': expected a number, got 1000"),
    "a score that is not finite": ("graded", {**SCORED, "score": "nan"}, "field 'score': expected a number"),
    "a label that is neither": ("contrastive", {**SCORED, "label": "2"}, "field 'label': expected 0 or 1"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_named(tmp_path, case):
    objective, row, message = BAD_ROWS[case]
    good = {**PAIR} if objective == "info_nce" else {**SCORED, "score": "0.5", "label": "1"}
    path = write(tmp_path / "rows.jsonl", [good, {**good, **row} if len(row) > 1 else row])
    with pytest.raises(DocumentError, match=r"rows\.jsonl, row 2, " + message):
        read(path, objective)


def test_a_lone_surrogate_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"anchor": "a", "positive": "b"}\n{"anchor": "a", "positive": "\\ud800"}\n')
    with pytest.raises(DocumentError, match=r"rows\.jsonl, row 2, field 'positive': lone surrogate U\+D800"):
        read(path)


def test_an_error_is_told_once(tmp_path, caplog):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"anchor": "a", "pos')
    with pytest.raises(DocumentError):
        read(path)
    assert not caplog.records, "the library logs nothing of what is raised"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b'{"anchor": "a", "positive": "b"}\n{"anchor": "a", "pos\n', "row 2: not JSON"),
        (b'{"anchor": "a", "positive": "b"}\n[1]\n', "row 2: expected a JSON object"),
        (b'{"anchor": "a", "positive": "\xff"}\n', "row 1: not UTF-8: invalid start byte at byte 29 of the row; save"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DocumentError, match=message):
        read(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize(
    ("content", "place"),
    [("anchor\tpositive\nwhat\ttea\n\nwho\tcafé au lait\n", "row 2"), ("anchor\tpositivé\na\tb\n", "the header")],
)
def test_a_table_in_another_encoding_is_named_by_its_row(tmp_path, suffix, content, place):
    path = tmp_path / f"rows{suffix}"
    path.write_bytes((content if suffix == ".tsv" else content.replace("\t", ",")).encode("latin-1"))
    told = rf"rows{suffix}, {place}: has bytes that are not UTF-8 \(b'\\xe9'\); save the file as UTF-8"
    with pytest.raises(DocumentError, match=told):
        read(path)


def test_a_damaged_parquet_file_is_named(tmp_path):
    path = write(tmp_path / "rows.parquet", PAIRS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DocumentError, match=r"rows\.parquet: cannot be read"):
        read(path)


def test_a_file_of_headers_alone_is_refused(tmp_path):
    path = tmp_path / "rows.tsv"
    path.write_text("anchor\tpositive\n")
    with pytest.raises(DocumentError, match=r"rows\.tsv: has no rows"):
        read(path)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"anchor": pyarrow.array([], "string"), "positive": ["a"][:0]}), path)
    with pytest.raises(DocumentError, match=r"rows\.parquet: has no rows"):
        read(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"anchor": "question"}, "has no column 'question' for 'anchor'; its columns are anchor, positive"),
        ({"anchor": ["anchor", "positive"]}, "'anchor' takes one column"),
        ({"negatives": "hard"}, "has no column 'hard' for 'negatives'"),
    ],
)
def test_a_missing_column_is_named(tmp_path, columns, message):
    with pytest.raises(ConfigurationError, match=message):
        read(write(tmp_path / "rows.jsonl", PAIRS), columns=columns)


def test_a_missing_column_of_the_name_of_its_role_is_named_once(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"anchor": "a"}])
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl: has no column 'positive'; its columns are anchor \("):
        read(path)


@pytest.mark.parametrize("objective", ["info_nce", "binary"])
@pytest.mark.parametrize(
    ("names", "uses"),
    [
        (["negative"], "negative}' uses it"),
        (["negative_1", "negative_2"], "[negative_1, negative_2]}' uses them"),
        (["Hard Negatives"], "Hard Negatives}' uses it"),
        (["neg"], "neg}' uses it"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_hard_negatives_of_another_name_are_not_ignored(tmp_path, objective, names, uses, suffix):
    path = write(tmp_path / f"rows{suffix}", [{**PAIR, **dict.fromkeys(names, "n"), "negativity": "x"}])
    message = rf"{', '.join(map(repr, names))}; 'columns: {{negatives: {uses}, 'columns: {{negatives: []}}' leaves"
    with pytest.raises(ConfigurationError, match=rf"rows\{suffix}: .*{re.escape(message)}"):
        read(path, objective)
    assert read(path, objective, columns={"negatives": names})[0]["negatives"] == ["n"] * len(names)
    assert read(path, objective, columns={"negatives": []}) == [PAIR]


def test_a_column_that_has_another_role_holds_no_negatives(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{"anchor": "a", "negative": "b"}])
    assert read(path, columns={"positive": "negative"}) == [PAIR]


def test_no_column_for_negatives_leaves_all_out(tmp_path):
    path = write(tmp_path / "rows.jsonl", [{**PAIR, "negatives": ["n"], "negative": "m"}])
    assert read(path) == [{**PAIR, "negatives": ["n"]}]
    assert read(path, columns={"negatives": []}) == [PAIR]


@pytest.mark.parametrize("objective", ["triplet", "info_nce", "binary"])
@pytest.mark.parametrize("role", ["anchor", "positive"])
def test_a_negative_that_is_the_anchor_or_the_positive_of_its_row_is_told(tmp_path, caplog, objective, role):
    one = "negative" if objective == "triplet" else "negatives"
    texts = ["n", PAIR[role], "n", f" {PAIR[role].upper()}"]
    rows = [{**PAIR, one: text if objective == "triplet" else ["m", text]} for text in texts]
    path = write(tmp_path / "rows.jsonl", rows)
    assert read(path, objective) == rows
    assert f"rows.jsonl: rows whose {role} is also a negative: 2, the first is row 2. " in caplog.text
    assert len(caplog.records) == 1
    caplog.clear()
    read(write(path, rows[::2]), objective)
    assert not caplog.records


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "rows.xlsx"
    path.write_text("x")
    with pytest.raises(ConfigurationError, match=r"expected a file ending in \.jsonl"):
        read(path)


def pairs_of(tmp_path, objective, rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return PairRows(open_rows(Source(path=path), objective, tmp_path / "cache"))


@pytest.mark.parametrize("at_once", [1, 2, 1000])
def test_a_row_becomes_a_pair_for_its_positive_and_each_negative(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr("twinvec.training.data.rows._AT_ONCE", at_once)
    negatives = (["n0"], [], ["n1", "n2"])
    rows = [{"anchor": f"a{n}", "positive": f"p{n}", "negatives": texts} for n, texts in enumerate(negatives)]
    pairs = pairs_of(tmp_path, "binary", rows)
    expected = [("a0", "p0", 1), ("a0", "n0", 0), ("a1", "p1", 1), ("a2", "p2", 1), ("a2", "n1", 0), ("a2", "n2", 0)]
    assert len(pairs) == len(expected)
    order = [4, 0, 5, 2, 1, 3]
    found = [(row["sentence1"], row["sentence2"], row["label"]) for row in pairs.rows(order)]
    assert found == [expected[index] for index in order]


def test_a_negative_that_is_a_positive_of_its_anchor_is_left_out(tmp_path):
    rows = [
        {"anchor": "a", "positive": "p", "negatives": ["P ", "n", "q"]},
        {"anchor": "A", "positive": "q", "negatives": ["p", "m"]},
        {"anchor": "b", "positive": "x", "negatives": ["p"]},
    ]
    pairs = pairs_of(tmp_path, "binary", rows)
    found = [(row["sentence1"], row["sentence2"], row["label"]) for row in pairs.rows(range(len(pairs)))]
    assert found == [("a", "p", 1), ("a", "n", 0), ("A", "q", 1), ("A", "m", 0), ("b", "x", 1), ("b", "p", 0)]


def test_negatives_that_are_all_positives_are_none(tmp_path):
    with pytest.raises(DocumentError, match="has no negatives"):
        pairs_of(tmp_path, "binary", [{"anchor": "a", "positive": "p", "negatives": ["p"]}])


def test_scored_rows_stay_as_they_are(tmp_path):
    pairs = pairs_of(tmp_path, "graded", [{"sentence1": "a", "sentence2": "b", "score": 0.25}])
    assert pairs.rows([0]) == [{"sentence1": "a", "sentence2": "b", "label": 0.25}]


def test_positives_alone_are_refused(tmp_path):
    with pytest.raises(DocumentError, match="twinvec mine"):
        pairs_of(tmp_path, "binary", [{"anchor": "a", "positive": "p"}, {"anchor": "b", "positive": "q"}])
