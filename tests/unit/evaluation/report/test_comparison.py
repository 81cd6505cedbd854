"""The comparison report: what is tested, written and drawn."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread

from twinvec.errors import ConfigurationError, InputError, ModelNotFoundError
from twinvec.evaluation.report import plots
from twinvec.evaluation.report.comparison import Comparison, compare, write_report
from twinvec.evaluation.suite import SystemResults, load_tasks

SENTENCES = [f"{text} | *loudly* & <b>" for text in ("A cat sleeps.", "The cat is asleep.", "A dog barks.", "Bread.")]


@pytest.fixture
def tasks(write, beir):
    rows = [
        f"{5 - abs(a - b)}\t{first}\t{second}\n"
        for a, first in enumerate(SENTENCES)
        for b, second in enumerate(SENTENCES)
        if a < b
    ]
    sts = write("s/pairs.tsv", "score\tsentence1\tsentence2\n" + "".join(rows))
    sentences = [
        f"nurse.x.{n}.{gender}.txt\tThe nurse said {word} would come {n}.\n"
        for n in range(2)
        for gender, word in (("male", "he"), ("female", "she"), ("neutral", "they"))
    ]
    sentences += [line.replace("nurse", "miner") for line in sentences]
    folder = write("winogender/all_sentences.tsv", "sentid\tsentence\n" + "".join(sentences)).parent
    write("winogender/occupations-stats.tsv", "occupation\tbls_pct_female\nnurse\t90\nminer\t4\n")
    return load_tasks(sts=[sts], ir=[beir], winogender=folder)


@pytest.fixture
def models(tiny_model):
    return [str(tiny_model("bert", seed=seed)) for seed in (0, 1)]


def is_picture(path):
    pixels = imread(path)
    return pixels.shape[0] > 100 and pixels.shape[1] > 400 and np.ptp(pixels[:, :, :3]) > 0.5


@pytest.mark.slow
def test_a_report_holds_tables_tests_examples_and_plots(tmp_path, tasks, models):
    comparison = compare([*models, "cls:" + models[0]], tasks, resamples=50)
    written = write_report(comparison, tmp_path / "report")
    assert [path.name for path in written] == [
        "report.md",
        "report.html",
        "figures.png",
        "differences.png",
        "occupations.png",
    ]
    assert all(is_picture(path) for path in written[2:])
    text = written[0].read_text()
    for heading in ("# Comparison of", "## STS", "## Retrieval", "## Bias", "## Differences from", "## s/pairs: pairs"):
        assert heading in text
    assert r"The cat is asleep. \| \*loudly\* \& \<b\>" in text
    page = written[1].read_text()
    assert "The cat is asleep. | *loudly* &amp; &lt;b&gt;" in page  # what a text says is no markup
    assert page.count("<table>") == text.count("\n| --- ")
    for picture in written[2:]:
        assert f'<img src="{picture.name}"' in page
    figures = json.loads(json.dumps(comparison.as_json(), allow_nan=False))
    assert [each["model"] for each in figures["models"]] == [*models, "cls:" + models[0]]
    assert {(each["section"], each["system"]) for each in figures["differences"]} == {
        (section, system) for section in ("sts", "ir") for system in (models[1], "cls:" + models[0])
    }


@pytest.mark.slow
def test_systems_that_agree_have_no_example_of_a_difference(tmp_path, tasks, models):
    same = shutil.copytree(models[0], tmp_path / "same")
    agreed, apart = (compare([models[0], other], tasks, resamples=50) for other in (str(same), models[1]))
    texts = [
        write_report(each, tmp_path / name)[0].read_text() for each, name in ((agreed, "agreed"), (apart, "apart"))
    ]
    assert [text.count("None: they agree on all.") for text in texts] == [2, 0]
    assert "| query |" not in texts[0]
    assert "| query |" in texts[1]
    assert is_picture(tmp_path / "agreed" / "differences.png")


def test_labelled_pairs_and_triplets_are_drawn(tmp_path, write, models):
    pairs = write("labelled.tsv", "label\tsentence1\tsentence2\n1\ta cat\tthe cat\n0\ta cat\ta dog\n")
    triplets = write("triplets.tsv", "anchor\tpositive\tnegative\na cat\tthe cat\ta dog\nx\ty\tz\n")
    tasks = load_tasks(pairs=[pairs], triplets=[triplets])
    written = write_report(compare(models, tasks, resamples=50), tmp_path / "report")
    assert [path.name for path in written[2:]] == ["figures.png"]
    assert is_picture(written[2])
    assert "## Triplets" in written[0].read_text()


def test_differences_are_those_of_the_figures(tasks, models):
    comparison = compare([models[1], "bm25", models[0]], replace(tasks, sts={}, winogender=None), resamples=50)
    first = comparison.evaluations[0].ir["small"].figures["ndcg@10"]
    for other, difference in zip(comparison.evaluations[1:], comparison.differences, strict=True):
        assert difference.test.difference == pytest.approx(other.ir["small"].figures["ndcg@10"] - first)


def test_what_is_reranked_is_compared_too(tmp_path, tasks, models, tiny_cross_encoder):
    tasks = replace(tasks, sts={}, winogender=None, rerank=str(tiny_cross_encoder("bert")), candidates=2)
    comparison = compare([models[0], "bm25"], tasks, resamples=50)
    assert [difference.section for difference in comparison.differences] == ["ir", "reranked"]
    text = write_report(comparison, tmp_path)[0].read_text()
    assert "## Retrieval, reranked" in text
    assert "| small, reranked | ndcg@10 | bm25 |" in text


def test_a_set_with_one_query_has_no_test(tmp_path, make_beir, write, models, tiny_cross_encoder):
    judged = make_beir("one", qrels={"q1": {"moon": 1}})
    questions = write("q.tsv", "anchor\tpositive\nwhat barks\tdogs bark\n")
    tasks = load_tasks(ir=[judged], questions=[questions], rerank=str(tiny_cross_encoder("bert")))
    comparison = compare([models[0], "bm25"], tasks, resamples=50)
    assert comparison.differences == []
    text = write_report(comparison, tmp_path / "report")[0].read_text()
    assert "## Retrieval, reranked" in text
    assert "## Differences from" not in text


@pytest.mark.parametrize(
    ("system", "error", "said"),
    [
        ("./no-such-model", ModelNotFoundError, "no-such-model"),
        ("cls:./no-such-model", ModelNotFoundError, "no-such-model"),
        ("glove:no-such-words.txt", InputError, r"no-such-words\.txt: cannot be read"),
        ("run:no-such.trec", InputError, r"no-such\.trec: cannot be read"),
        ("bm25", ConfigurationError, "maxsim compares token states, and bm25 has none"),
        ("cls:MODEL", ConfigurationError, "maxsim compares token states, and cls:.* has none"),
    ],
)
def test_every_system_is_checked_before_the_first_is_measured(tasks, models, monkeypatch, system, error, said):
    monkeypatch.setattr("twinvec.Encoder.encode", lambda *_, **__: pytest.fail("texts are encoded"))
    with pytest.raises(error, match=said):
        compare([models[0], system.replace("MODEL", models[1])], replace(tasks, rerank="maxsim"))


def test_a_full_disk_leaves_the_old_report_and_plot(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("twinvec.support.atomic.put_in_place", fail)
    files = [tmp_path / name for name in ("report.md", "figures.png")]
    for file in files:
        file.write_text("old")
    with pytest.raises(OSError, match="No space left"):
        write_report(Comparison([SystemResults("one"), SystemResults("two")], []), tmp_path)
    with pytest.raises(OSError, match="No space left"):
        plots.bars({"set": {"one": (50.0, None)}}, files[1])
    assert [file.read_text() for file in files] == ["old", "old"]
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_names_with_dollar_signs_are_no_formulas(tmp_path):
    name, picture = "under_$5_and_$6", tmp_path / "plot.png"
    plots.bars({name: {name: (50.0, [40.0, 60.0])}}, picture)
    plots.differences({name: np.array([1.0, -1.0])}, name, "other", picture)
    assert imread(picture).size


def test_a_comparison_needs_two_different_models(tasks, models):
    for systems in ([], models[:1], models[:1] * 2):
        with pytest.raises(ConfigurationError, match="two or more different models"):
            compare(systems, tasks)
