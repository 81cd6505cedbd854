"""Ranking measures against hand-computed values and ir-measures, and TREC run files."""

from __future__ import annotations

import math
import re

import ir_measures
import pytest

from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.measures import measure_run, read_run, run_tag, write_run

QRELS = {"q1": {"a": 3, "b": 1, "c": 0}, "q2": {"d": 1}, "q3": {"e": 1}}
RUN = {"q1": {"b": 0.9, "x": 0.8, "a": 0.7}, "q2": {"x": 0.5, "y": 0.4}}


def test_worked_example():
    found = measure_run(RUN, QRELS, ["ndcg@3", "mrr@10", "recall@1", "precision@3", "map@3"])
    gain = 1 + 3 / math.log2(4)
    ideal = 3 + 1 / math.log2(3)
    assert found.queries == ["q1", "q2", "q3"]
    assert found.per_query["ndcg@3"] == pytest.approx([100 * gain / ideal, 0, 0])
    assert found.per_query["mrr@10"] == pytest.approx([100, 0, 0])
    assert found.per_query["recall@1"] == pytest.approx([50, 0, 0])
    assert found.per_query["precision@3"] == pytest.approx([200 / 3, 0, 0])
    assert found.per_query["map@3"] == pytest.approx([100 * (1 + 2 / 3) / 2, 0, 0])
    # a query without hits counts
    assert found.figures["mrr@10"] == pytest.approx(100 / 3)


def test_measures_are_named_without_the_parser_of_ir_measures(monkeypatch):
    """The parser of ir-measures 0.4.3 fails with Python 3.14."""
    monkeypatch.setattr(ir_measures, "parse_measure", None)
    assert measure_run(RUN, QRELS, ["mrr@10"]).figures["mrr@10"] == pytest.approx(100 / 3)


def test_a_query_whose_judgements_are_all_0_counts_as_in_ir_measures():
    qrels = {**QRELS, "q2": {"d": 0, "x": 0}}
    found = measure_run(RUN, qrels, ["ndcg@10", "mrr@10", "recall@10"])
    measures = [ir_measures.nDCG @ 10, ir_measures.RR @ 10, ir_measures.R @ 10]
    theirs = ir_measures.calc_aggregate(measures, qrels, RUN)
    assert list(found.figures.values()) == pytest.approx([100 * theirs[each] for each in measures])
    assert len(found.queries) == 3


@pytest.mark.parametrize("grade", [-1, -2])
def test_negative_judgements_are_not_relevant(grade):
    judged = {"q1": {"a": 3, "b": 1, "c": grade}, "q2": {"d": grade, "x": grade}}
    assert measure_run(RUN, judged).figures == measure_run(RUN, {"q1": QRELS["q1"], "q2": {"d": 0, "x": 0}}).figures


def test_all_measures_order_equal_scores_alike():
    """Values: by document id, descending, as float32, the relevant document is the second of three."""
    run = {"q": {"c": 0.5, "b": 0.5 + 1e-12, "a": 0.5, "d": 0.1}}
    found = measure_run(run, {"q": {"b": 1}}, ["mrr@3", "map@3", "ndcg@3", "recall@1", "recall@2"])
    assert list(found.figures.values()) == pytest.approx([50, 50, 100 / math.log2(3), 0, 100])


def test_a_run_file_gives_ir_measures_the_same_figures(tmp_path):
    path = tmp_path / "run.trec"
    write_run(RUN, path)
    assert read_run(path) == RUN
    qrels = [ir_measures.Qrel(query, name, score) for query, judged in QRELS.items() for name, score in judged.items()]
    by_hand = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, ir_measures.read_trec_run(str(path)))
    assert measure_run(RUN, QRELS, ["ndcg@10"]).figures["ndcg@10"] == pytest.approx(
        100 * by_hand[ir_measures.nDCG @ 10]
    )


def test_scores_survive_a_run_file_to_the_last_bit(tmp_path):
    run = {"q": {"a": 0.1 + 0.2, "b": 1e-300, "c": -1 / 3}}
    write_run(run, tmp_path / "run.trec")
    assert read_run(tmp_path / "run.trec") == run


def test_tags_fit_a_run_and_a_file_name_and_stay_apart():
    assert run_tag("org/name@main") == "org--name@main"
    assert run_tag("./my-model") == "my-model"
    assert run_tag("articles", "default", "hybrid-words-x-0.5") == "articles-default-hybrid-words-x-0.5"
    alike = ["org/name", "org-name", "org--name", "org name", "org\tname", "/org/name", "../org/name", "модель", "/"]
    tags = list(map(run_tag, alike))
    assert len(set(tags)) == len(alike)
    assert all(re.fullmatch(r"[\w+.@-]+", tag) and tag[0] not in ".-" for tag in tags)
    first, second = (run_tag(f"/{'deep/' * 30}{name}") for name in ("one", "two"))
    assert first != second
    assert len(first) == len(second) == 60


@pytest.mark.parametrize("odd", ["\0", "\ud800", " "])
def test_ids_may_have_any_character(odd):
    run = {f"q{odd}a": {f"d{odd}a": 2, f"d{odd}b": 1}, f"q{odd}b": {f"d{odd}a": 1}}
    qrels = {f"q{odd}a": {f"d{odd}b": 1}, f"q{odd}b": {f"d{odd}a": 1}}
    assert measure_run(run, qrels, ["map@10"]).per_query["map@10"].tolist() == [50, 100]


@pytest.mark.parametrize("name", ["ndcg", "ndcg@0", "ndcg@x", f"ndcg@{10**9}", "auc@10", "ndcg@10)", ""])
def test_an_unknown_measure_is_refused(name):
    with pytest.raises(ConfigurationError, match="is not one of ndcg@k"):
        measure_run(RUN, QRELS, [name])


def test_no_judgements_are_refused():
    with pytest.raises(InputError, match="no judged queries"):
        measure_run(RUN, {})


@pytest.mark.parametrize("run", [{"q 1": {"a": 1.0}}, {"q": {"a b": 1.0}}, {"q": {"": 1.0}}, {"q": {"\ud800": 1}}])
def test_ids_that_the_format_cannot_hold_leave_the_old_file(tmp_path, run):
    path = tmp_path / "run.trec"
    write_run(RUN, path)
    with pytest.raises(InputError, match="cannot hold the id"):
        write_run(run, path)
    assert read_run(path) == RUN
    assert list(tmp_path.iterdir()) == [path]


def test_a_tag_that_the_format_cannot_hold_is_refused(tmp_path):
    with pytest.raises(InputError, match="cannot hold the tag 'a b'"):
        write_run(RUN, tmp_path / "run.trec", "a b")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "run.trec: the file is empty"),
        ("q Q0 a 1 0.5\n", "run.trec:1: 5 fields, expected 6"),
        ("q Q0 a 1 0.5 t\nq Q0 b 2 best t\n", "run.trec:2: score 'best' is not a number"),
        ("q Q0 a 1 0.5 t\nq Q0 a 2 0.4 t\n", "run.trec:2: the document 'a' comes twice"),
    ],
)
def test_a_malformed_run_is_refused_by_line(tmp_path, content, said):
    (tmp_path / "run.trec").write_text(content)
    with pytest.raises(InputError, match=said):
        read_run(tmp_path / "run.trec")
