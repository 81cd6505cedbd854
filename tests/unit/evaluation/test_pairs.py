"""Labelled pairs, triplets, and questions with their answers."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import InputError
from twinvec.evaluation.ir import evaluate_ir
from twinvec.evaluation.pairs import (
    evaluate_pairs,
    evaluate_triplets,
    load_labelled_pairs,
    load_questions,
    load_triplets,
)

HEADER = "label\tsentence1\tsentence2\n"


def test_labelled_pairs_by_hand(write, table_model):
    # cosines with "x": 1.0 (same), 0.8 (other), 0.6 (same), 0 (other)
    vectors = {"x": (1, 0), "a": (2, 0), "b": (0.8, 0.6), "c": (0.6, 0.8), "d": (0, 1)}
    data = load_labelled_pairs(write("p.tsv", HEADER + "1\tx\ta\n0\tx\tb\n1\tx\tc\n0\tx\td\n"))
    found = evaluate_pairs(table_model(vectors), data, resamples=100)
    assert found["average_precision"] == pytest.approx(100 * (1 + 2 / 3) / 2)
    assert found["accuracy"] == 75  # at 1.0 or at 0.6
    assert found["f1"] == pytest.approx(100 * 2 * (2 / 3) / (2 / 3 + 1))
    assert found["f1_threshold"] == pytest.approx(0.6)
    assert found["rows"] == 4


def test_labels_may_be_floats(write):
    data = load_labelled_pairs(write("p.tsv", HEADER + "1.0\tx\ta\n0.0\tx\tb\n"))
    assert data.labels.tolist() == [1, 0]


def test_a_threshold_gives_the_accuracy_that_it_stands_for(table_model):
    random = np.random.default_rng(3)
    vectors = {str(row): random.normal(size=3) for row in range(80)}
    from twinvec.evaluation.pairs import LabelledPairs

    labels = random.integers(0, 2, 40).astype(float)
    data = LabelledPairs("lot", [str(r) for r in range(40)], [str(r) for r in range(40, 80)], labels)
    found = evaluate_pairs(table_model(vectors), data, resamples=100)
    unit = np.stack([v / np.linalg.norm(v) for v in np.array(list(vectors.values()), dtype=np.float32)])
    cosines = (unit[:40] * unit[40:]).sum(axis=1)
    chosen = cosines >= found["accuracy_threshold"] - 1e-6
    assert 100 * (chosen == labels).mean() == pytest.approx(found["accuracy"])
    every = [100 * ((cosines >= level) == labels).mean() for level in cosines]
    assert found["accuracy"] == pytest.approx(max(every))
    low, high = found["average_precision_interval"]
    assert 0 < low < found["average_precision"] < high < 100


def test_triplets_by_hand(write, table_model):
    vectors = {"x": (1, 0), "near": (1, 0.1), "far": (0, 1), "same": (2, 0.2)}
    rows = "anchor\tpositive\tnegative\nx\tnear\tfar\nx\tfar\tnear\nx\tnear\tsame\n"
    found = evaluate_triplets(table_model(vectors), load_triplets(write("t.tsv", rows)))
    assert found["accuracy"] == pytest.approx(100 / 3)  # equal is not nearer
    assert found["margin"] == pytest.approx(0, abs=1e-4)
    assert found["rows"] == 3
    low, high = found["accuracy_interval"]
    assert 0 < low < 100 / 3 < high < 100


def test_questions_share_their_answers(write, table_model):
    rows = [("who", "me"), ("where", "here"), ("who", "you"), ("whither", "here")]
    path = write("q.jsonl", "".join(f'{{"anchor": "{q}", "positive": "{a}"}}\n' for q, a in rows))
    data = load_questions(path)
    assert [document.text for document in data.documents] == ["me", "here", "you"]
    assert data.queries == {"q0": "who", "q1": "where", "q2": "whither"}
    assert data.qrels == {"q0": {"a0": 1, "a2": 1}, "q1": {"a1": 1}, "q2": {"a1": 1}}
    vectors = {"who": (1, 0), "where": (0, 1), "whither": (0.1, 1), "me": (1, 0.2), "you": (1, -0.2), "here": (0, 1)}
    found = evaluate_ir(table_model(vectors), data, measures=["precision@1", "recall@2"], resamples=20)
    assert found.figures == {"precision@1": 100, "recall@2": 100, "queries": 3}


@pytest.mark.parametrize(
    ("load", "name", "content", "said"),
    [
        (
            load_labelled_pairs,
            "p.parquet",
            "PAR1",
            "p.parquet: is a Parquet file; expected a .tsv file with the columns label, sentence1, sentence2",
        ),
        (load_labelled_pairs, "p.tsv", HEADER + "1\ta\tb\n2\ta\tb\n", "p.tsv:3: label '2' is neither 0 nor 1"),
        (load_labelled_pairs, "p.tsv", HEADER + "1\ta\tb\n", "p.tsv: every label is 1"),
        (load_labelled_pairs, "p.tsv", "", "p.tsv: the file is empty"),
        (load_triplets, "t.jsonl", '{"anchor": "a", "positive": "b"}\n', "t.jsonl:1: no 'negative'"),
        (load_triplets, "t.tsv", "anchor\tpositive\nx\ty\n", "t.tsv:1: no column 'negative'"),
        (load_questions, "q.jsonl", '{"anchor": "a", "positive": 3}\n', "q.jsonl:1: 'positive'"),
    ],
)
def test_a_malformed_file_is_refused_by_line(write, load, name, content, said):
    with pytest.raises(InputError) as error:
        load(write(name, content))
    assert said in str(error.value)
