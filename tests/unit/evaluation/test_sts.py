"""Semantic textual similarity: worked examples, published figures, and files that are refused."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.sts import StsSet, compare_sts, evaluate_sts, load_sts, pair_similarities, pearson, spearman

HEADER = "score\tsentence1\tsentence2\n"
PLANE = {"east": (1, 0), "north": (0, 2), "west": (-3, 0), "between": (1, 1)}
ROWS = "5\teast\tbetween\n3\teast\tnorth\n0\teast\twest\n2\tnorth\tbetween\n"


def test_similarities_by_hand():
    first = np.array([[1, 0], [3, 4], [0, 0]], dtype=np.float32)
    second = np.array([[0, 2], [4, 3], [1, 1]], dtype=np.float32)
    found = pair_similarities(first, second)
    assert found["cosine"].tolist() == pytest.approx([0, 24 / 25, 0])
    assert found["dot"].tolist() == pytest.approx([0, 24, 0])
    assert found["euclidean"].tolist() == pytest.approx([-np.sqrt(5), -np.sqrt(2), -np.sqrt(2)])
    assert found["manhattan"].tolist() == pytest.approx([-3, -2, -2])


@pytest.mark.parametrize("size", [1e-4, 1, 30])
def test_rounding_decides_nothing(write, table_model, size):
    random = np.random.default_rng(0)
    long = random.normal(size=(40, 96)).astype(np.float32)
    units = long / np.linalg.norm(long, axis=1, keepdims=True)
    rows = "".join(f"{number}\t{number}\t{number}\n" for number in range(40))
    data = load_sts(write("same.tsv", HEADER + rows))
    found = evaluate_sts(table_model(dict(zip(data.first, units, strict=True))), data, resamples=20).figures
    assert {name: value for name, value in found.items() if value} == {"rows": 40}
    other = np.roll(long, 1, axis=0)
    products = (long.astype(np.float64) * other).sum(axis=1)  # differences are kept, also those of short vectors
    dots = pair_similarities(np.float32(size) * long, np.float32(size) * other)["dot"]
    assert spearman(dots, products) == pytest.approx(100)


def test_correlations_are_those_of_the_definitions():
    values, gold = np.array([0.1, 0.4, 0.4, 0.9]), np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(values, gold) == pytest.approx(100 * 4.5 / np.sqrt(4.5 * 5))  # ranks 1, 2.5, 2.5, 4
    assert pearson(2 * gold - 7, gold) == pytest.approx(100)
    assert spearman(-gold, gold) == pytest.approx(-100)
    assert spearman(np.ones(4), gold) == 0
    assert pearson(np.ones(4), gold) == 0


def test_numbers_that_are_not_finite_are_refused():
    for measure in (spearman, pearson):
        with pytest.raises(InputError, match="gold: expected finite numbers, got nan"):
            measure([1, 2, 3], [1, 2, float("nan")])


@pytest.mark.parametrize("axis", [2, -3, None, 0.5])
def test_an_axis_that_the_numbers_lack_is_refused(axis):
    with pytest.raises(ConfigurationError, match="axis"):
        spearman(np.eye(3), np.eye(3), axis=axis)


def test_worked_example(write, table_model):
    data = load_sts(write("compass/test.tsv", HEADER + ROWS))
    model = table_model(PLANE)
    result = evaluate_sts(model, data, resamples=50)
    assert data.name == "compass/test"
    # cosines 0.707, 0, -1, 0.707 against 5, 3, 0, 2: ranks 3.5, 2, 1, 3.5 and 4, 3, 1, 2
    assert result.figures["spearman"] == pytest.approx(100 * 3 / np.sqrt(4.5 * 5))
    assert result.figures["rows"] == 4
    assert sorted(model.encoded) == ["between", "east", "north", "west"]  # each once
    assert {name.rpartition("_")[2] for name in result.figures} >= {"dot", "euclidean", "manhattan", "pearson"}


def test_a_folder_counts_as_one_set(write, table_model):
    write("compass/b.tsv", HEADER + "4\teast\tbetween\n")
    path = write("compass/a.tsv", HEADER + ROWS)
    data = load_sts(path.parent)
    assert data.name == "compass"
    assert data.gold.tolist() == [5, 3, 0, 2, 4]
    assert evaluate_sts(table_model(PLANE), data, resamples=50).figures["rows"] == 5


def test_columns_may_stand_in_any_order_beside_others(write):
    data = load_sts(write("a.tsv", "id\tsentence2\tscore\tsentence1\n7\tb\t1\ta\n8\td\t2\tc\n"))
    assert (data.first, data.second, data.gold.tolist()) == (["a", "c"], ["b", "d"], [1, 2])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "a.tsv: the file is empty"),
        (HEADER, "a.tsv: no rows"),
        (HEADER + "5\tone\n", "a.tsv:2: 2 fields, expected 3"),
        (HEADER + "5\tone\ttwo\nhigh\tone\ttwo\n", "a.tsv:3: score 'high' is not a number"),
        (HEADER + "nan\tone\ttwo\n", "a.tsv:2: score 'nan' is not a number"),
        (HEADER + "3\tone\ttwo\n3\tone\tthree\n", "a.tsv: all 2 scores are 3"),
        ("label\ta\tb\n1\tx\ty\n", "a.tsv:1: no column 'score'"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_file_and_line(write, content, said):
    with pytest.raises(InputError) as error:
        load_sts(write("a.tsv", content))
    assert said in str(error.value)


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no \.tsv file"):
        load_sts(tmp_path)


def test_a_model_does_not_differ_from_itself_but_from_its_reverse(write, table_model):
    angles = np.linspace(0, np.pi, 40)
    rows = "".join(f"{40 - index}\tzero\t{index}\n" for index in range(40))
    data = load_sts(write("angles.tsv", HEADER + rows))
    turning = {str(index): (np.cos(angle), np.sin(angle)) for index, angle in enumerate(angles)}
    good = evaluate_sts(table_model({"zero": (1, 0), **turning}), data, resamples=200)
    bad = evaluate_sts(table_model({"zero": (-1, 0), **turning}), data, resamples=200)
    assert good.figures["spearman"] == pytest.approx(100)
    same = compare_sts(good, good, resamples=200)
    assert (same.difference, same.p_value) == (0, 1)
    worse = compare_sts(good, bad, resamples=200)
    assert worse.difference == pytest.approx(-200)
    assert worse.p_value < 0.02


def test_results_of_different_pairs_are_not_compared(table_model):
    model = table_model({"a": (1, 0), "b": (0, 1), "c": (1, 1)})
    first, second = (
        evaluate_sts(model, StsSet("made", ["a", "b"], texts, [1, 2]), resamples=9)
        for texts in (["b", "c"], ["c", "b"])
    )
    with pytest.raises(ConfigurationError, match="the results are of different pairs"):
        compare_sts(first, second)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "rows", "published"),
    [
        ("stsb/test.tsv", 1379, 82.03),
        ("sick", 9927, 77.58),
        ("sick/test.tsv", 4927, 77.15),
        ("sts12/test.tsv", 3108, 72.37),
        ("sts13/test.tsv", 1500, 80.60),
        ("sts15/test.tsv", 3000, 85.39),
    ],
)
def test_the_default_model_has_its_published_figures(name, rows, published, remembering, data):
    result = evaluate_sts(remembering, load_sts(data / "sts" / name), resamples=20)
    assert result.figures["rows"] == rows
    assert round(result.figures["spearman"], 2) == published


@pytest.mark.parametrize(
    ("first", "second", "gold", "said"),
    [
        (
            ["a", "b"],
            ["c"],
            [1, 2],
            "made: the columns differ in .* rows: 2 in gold, 2 in first, 1 in second",
        ),
        (["a"], ["c"], [1], "made: all 1 scores are 1; a correlation needs scores that differ"),
        (["a", "b"], ["c", "d"], [3, 3], "made: all 2 scores are 3"),
        ([], [], [], "made: no rows"),
        (["a", 2], ["c", "d"], [1, 2], "made: first 1: expected a string, got int"),
        (["a", "b"], ["c", "d"], [1, "x"], "made: expected a list of scores"),
        (["a", "b"], ["c", "d"], [[1, 2]], "made: expected a list of scores, got an array of shape"),
        (["a", "b"], ["c", "d"], [1, float("nan")], "made: score 1 is not finite"),
    ],
)
def test_a_set_made_by_hand_is_checked(first, second, gold, said):
    with pytest.raises(InputError, match=said):
        StsSet("made", first, second, gold)


def test_a_set_takes_any_sequences(table_model):
    made = StsSet("made", ("east", "east"), ["between", "west"], [5, 0])
    assert evaluate_sts(table_model(PLANE), made, resamples=50).figures["spearman"] == pytest.approx(100)
    with pytest.raises(InputError, match="data: expected an StsSet"):
        evaluate_sts(table_model(PLANE), {"a": 1})
