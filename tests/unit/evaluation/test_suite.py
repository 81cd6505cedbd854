"""Several tasks and systems at once: names, means, tables, baselines that look at words only."""

from __future__ import annotations

import sys

import pytest

from twinvec.errors import ConfigurationError, InputError, MissingExtraError, ModelNotFoundError
from twinvec.evaluation.measures import MEASURES
from twinvec.evaluation.report.figure_tables import figure_tables, form_tables
from twinvec.evaluation.suite import evaluate, load_tasks
from twinvec_qdrant.cli.tune import _gain

STS = "score\tsentence1\tsentence2\n5\tA cat sleeps.\tThe cat is asleep.\n2\tA cat sleeps.\tA dog barks.\n0\tA\tBread\n"


def test_sets_of_one_name_are_told_apart_by_their_path(write):
    paths = [write(f"{folder}/stsb/test.tsv", STS) for folder in ("one", "two")]
    tasks = load_tasks(sts=paths)
    assert list(tasks.sts) == ["stsb/test", str(paths[1])]
    assert [data.name for data in tasks.sts.values()] == list(tasks.sts)


def test_all_files_are_read_before_anything_is_measured(write, beir):
    bad = write("bad.tsv", STS + "x\ta\tb\n")
    with pytest.raises(InputError, match=r"bad\.tsv:5: score 'x'"):
        load_tasks(ir=[beir], sts=[bad])


def test_words_take_part_in_retrieval_only(write, beir):
    questions = write("q.tsv", "anchor\tpositive\nwhat barks\tdogs bark\nwhat sleeps\tcats sleep\n")
    tasks = load_tasks(sts=[write("s.tsv", STS)], ir=[beir], questions=[questions])
    found = evaluate("bm25", tasks, resamples=50).as_json()
    assert set(found) == {"model", "ir", "questions"}
    assert set(MEASURES) < set(found["ir"]["small"])
    (answers,) = found["questions"].values()
    assert answers["precision@1"] == 100
    with pytest.raises(ConfigurationError, match="can be measured on retrieval only"):
        evaluate("bm25", load_tasks(sts=[write("s.tsv", STS)]))


def test_a_run_of_another_tool_is_a_system(write, beir):
    run = write("run.trec", "q1 Q0 moon 1 2.5 x\nq1 Q0 cats 2 1.5 x\nq3 Q0 bread 1 9 x\n")
    tasks = load_tasks(ir=[beir], measures=["recall@10"])
    found = evaluate(f"run:{run}", tasks, resamples=50)
    assert found.ir["small"].figures == {"recall@10": pytest.approx(50), "queries": 3}
    with pytest.raises(ConfigurationError, match="a run belongs to one retrieval set"):
        evaluate(f"run:{run}", load_tasks(sts=[write("s.tsv", STS)]))
    strange = write("strange.trec", "q1 Q0 mars 1 2.5 x\n")
    with pytest.raises(InputError, match=r"strange.trec: the document 'mars' is not a document of small"):
        evaluate(f"run:{strange}", tasks)
    with pytest.raises(InputError, match=r"bad.trec:1: 5 fields, expected 6"):
        evaluate(f"run:{write('bad.trec', 'q1 Q0 moon 1 2.5')}", tasks)


def test_of_a_run_only_judged_queries_count(write, beir, tiny_cross_encoder):
    more = write("more.trec", "q1 Q0 moon 1 2.5 x\nq9 Q0 moon 1 2 x\nq9 Q0 mars 2 1 x\n")
    tasks = load_tasks(ir=[beir], measures=["recall@10"], rerank=str(tiny_cross_encoder("bert")))
    found = evaluate(f"run:{more}", tasks, resamples=50)
    assert list(found.ir["small"].run) == ["q1"]
    assert found.reranked["small"].result.figures == found.ir["small"].figures
    other = write("other.trec", "q9 Q0 moon 1 2.5 x\n")
    with pytest.raises(InputError, match=r"other.trec: no query of the run, such as 'q9', is judged in .* small"):
        evaluate(f"run:{other}", tasks)


def test_means_are_of_measures_that_all_sets_have(beir, make_beir, tiny_cross_encoder):
    """The gain of a set with one judged query has no test."""
    one = make_beir("one", qrels={"q1": {"moon": 1}})
    tasks = load_tasks(ir=[beir, one], rerank=str(tiny_cross_encoder("bert")))
    found = evaluate("bm25", tasks, resamples=50).as_json()
    assert "gain" in found["reranked"]["small"]
    assert set(found["mean"]["reranked"]) == set(MEASURES)
    by_hand = sum(found["reranked"][name]["mrr@10"] for name in ("small", "one")) / 2
    assert found["mean"]["reranked"]["mrr@10"] == pytest.approx(by_hand)


def test_what_cannot_be_measured_is_refused_before_anything_is_encoded(write, beir, tiny_model, monkeypatch):
    """As are a reranker that does not exist, and rows for inference that no head can learn."""

    def encode(*_, **__):
        pytest.fail("texts are encoded")

    monkeypatch.setattr("twinvec.Encoder.encode_stream", encode)
    monkeypatch.setattr("twinvec.Encoder.encode", encode)
    model = str(tiny_model("bert"))
    with pytest.raises(ModelNotFoundError, match="no-such-reranker"):
        evaluate(model, load_tasks(ir=[beir], rerank="./no-such-reranker"))
    nli = write("n.tsv", "label\tpremise\thypothesis\n" + "".join(f"{each}\tp\th\n" for each in ("yes", "no")))
    with pytest.raises(InputError, match="fewer than 5 premises"):
        evaluate(model, load_tasks(ir=[beir], nli=[nli]))


def test_a_missing_package_is_named_when_the_data_are_loaded(write, monkeypatch):
    labelled = write("p.tsv", "label\tsentence1\tsentence2\n1\ta\tb\n0\tc\td\n")
    for module, given in (("scipy.stats", {"sts": [write("s.tsv", STS)]}), ("sklearn.metrics", {"pairs": [labelled]})):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(MissingExtraError, match="needs the package"):
                load_tasks(**given)


def test_nothing_to_measure_on_is_refused():
    with pytest.raises(ConfigurationError, match="nothing to evaluate on"):
        evaluate("default", load_tasks())


def test_tables_put_systems_side_by_side_and_group_equal_measures():
    one = {
        "model": "a",
        "sts": {"x": {"spearman": 80.123, "spearman_interval": [79.0, 81.04], "rows": 1379}, "y": {"spearman": 70.0}},
        "bias": {"w": {"lean": 1.0, "occupations": {"nurse": {}}}},
        "mean": {"sts": {"spearman": 75.06}},
    }
    two = {"model": "b", "sts": {"x": {"spearman": 81.0, "rows": 1379}}}
    tables = list(figure_tables([one, two]))
    assert [table.title for table in tables] == ["STS", "STS", "Bias"]
    assert tables[0].columns == ["data", "model", "spearman", "rows"]
    assert tables[0].rows == [
        ["x", "a", "80.12 (79.0 to 81.0)", "1,379"],
        ["x", "b", "81.00", "1,379"],
        ["mean", "a", "75.06", ""],
    ]
    assert tables[1].rows == [["y", "a", "70.00"]]
    assert tables[2].columns == ["data", "model", "lean"]  # what is no single figure is left to JSON
    assert next(figure_tables([one])).columns == ["data", "spearman", "rows"]


def test_a_table_can_be_turned():
    (table,) = figure_tables([{"model": "a", "sts": {"x": {"spearman": 1.0}, "y": {"spearman": 2.0}}}])
    turned = table.turned()
    assert (turned.title, turned.columns) == ("STS", ["data", "x", "y"])
    assert turned.rows == [["spearman", "1.00", "2.00"]]


def test_measures_are_checked_before_anything_is_read(tmp_path):
    for measures in ([], ["ndcg@10", "auc"]):
        with pytest.raises(ConfigurationError, match="ndcg@"):
            load_tasks(ir=[tmp_path / "none"], measures=measures)


def test_forms_have_a_table_for_each_set():
    (table,) = form_tables({"forms": {"s": {"float32": {"ndcg@10": 50.0, "bytes": 1536}, "int8": {"ndcg@10": 49.0}}}})
    assert (table.title, table.columns) == ("s, kept as", ["form", "ndcg@10", "bytes"])
    assert table.rows == [["float32", "50.00", "1,536"], ["int8", "49.00", ""]]


def test_a_small_p_value_is_not_shown_as_zero():
    reranked = {
        "x": {"mrr@10": 50.0, "gain": 2.0, "p_value": 0.002},
        "y": {"mrr@10": 50.0, "gain": 0.1, "p_value": 0.4},
    }
    (table,) = figure_tables([{"model": "a", "reranked": reranked}])
    assert [row[-1] for row in table.rows] == ["< 0.01", "0.40"]
    test = {"difference": 2.0, "interval": {"low": 1.0, "high": 3.0}}
    assert _gain(test | {"p_value": 0.002}) == "+2.00 (+1.00 to +3.00, p < 0.01)"
    assert _gain(test | {"p_value": 0.4}) == "+2.00 (+1.00 to +3.00, p 0.40)"
