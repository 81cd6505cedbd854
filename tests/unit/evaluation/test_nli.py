"""Inference: heads fitted afresh, a trained head, and rows of one premise that stay together."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import InputError
from twinvec.evaluation.nli import NliSet, evaluate_nli, load_nli
from twinvec.evaluation.suite import evaluate, load_tasks

HEADER = "label\tpremise\thypothesis\n"


def separable(count, seed=0):
    """Vectors of premises, and hypotheses at them or opposite to them."""
    random = np.random.default_rng(seed)
    vectors, labels, premises, hypotheses = {}, [], [], []
    for row in range(count):
        point = random.normal(size=8)
        same = row % 3 > 0
        vectors[f"p{seed}.{row}"] = point
        vectors[f"h{seed}.{row}"] = point if same else -point
        labels.append("yes" if same else "no")
        premises.append(f"p{seed}.{row}")
        hypotheses.append(f"h{seed}.{row}")
    return vectors, NliSet(f"separable{seed}", labels, premises, hypotheses)


def test_a_head_learns_what_the_vectors_show(table_model):
    vectors, data = separable(120)
    result = evaluate_nli(table_model(vectors), data, resamples=50)
    assert result.figures["accuracy"] > 90
    assert result.figures["majority"] == pytest.approx(100 * 2 / 3)
    assert result.figures["accuracy"] == pytest.approx(result.correct.mean())
    assert result.interval.low <= result.figures["accuracy"] <= result.interval.high
    assert len(result.correct) == result.figures["rows"] == 120


def test_a_head_fitted_on_other_rows_is_applied_to_these(table_model):
    vectors, data = separable(60)
    more, train = separable(90, seed=1)
    assert evaluate_nli(table_model(vectors | more), data, train=train, resamples=50).figures["accuracy"] > 90


def test_rows_of_a_premise_are_not_split_between_folds(table_model):
    """Each premise has a label of its own drawn by lot: what is learnt of one says nothing of another."""
    random = np.random.default_rng(7)
    premises = [f"p{row // 20}" for row in range(400)]
    drawn = {premise: random.choice(["yes", "no"]) for premise in dict.fromkeys(premises)}
    vectors = {f"p{row}": 10 * random.normal(size=64) for row in range(20)}
    vectors |= {f"h{row}": random.normal(size=64) for row in range(400)}
    data = NliSet("lot", [str(drawn[p]) for p in premises], premises, [f"h{row}" for row in range(400)])
    assert evaluate_nli(table_model(vectors), data, resamples=50).figures["accuracy"] < 75


class Head:
    labels = ("yes", "no")

    def label(self, pairs):
        return ["no" if hypothesis.endswith("0") else "yes" for _, hypothesis in pairs]


def test_a_trained_head_is_asked_and_nothing_is_fitted(table_model):
    vectors, data = separable(30)
    model = table_model(vectors)
    result = evaluate_nli(model, data, head=Head(), resamples=50)
    expected = [
        label == ("no" if h.endswith("0") else "yes") for label, h in zip(data.labels, data.hypotheses, strict=True)
    ]
    assert result.correct.tolist() == [100 * each for each in expected]
    assert model.encoded == []


def test_the_head_that_training_left_with_a_model_is_found(tiny_copy, write):
    import torch

    from twinvec import Encoder
    from twinvec.training.losses.modules import SoftmaxLoss
    from twinvec.training.run.softmax_head import PairClassifier, save_head

    encoder = Encoder(tiny_copy)
    torch.manual_seed(0)
    save_head(SoftmaxLoss(encoder.dim, ["no", "yes"]), tiny_copy)
    pairs = [(f"the cat {row}", f"a dog sleeps {row * row}") for row in range(12)]
    predicted = PairClassifier(encoder, tiny_copy).label(pairs)
    labels = [*predicted[:9], *({"no": "yes", "yes": "no"}[label] for label in predicted[9:])]
    rows = "".join(f"{label}\t{a}\t{b}\n" for label, (a, b) in zip(labels, pairs, strict=True))
    assert len(set(labels)) == 2
    tasks = load_tasks(nli=[write("n.tsv", HEADER + rows)])
    (result,) = evaluate(str(tiny_copy), tasks, resamples=50).nli.values()
    assert result.correct.tolist() == [100] * 9 + [0] * 3
    (fitted,) = evaluate(str(tiny_copy), tasks, dim=8, resamples=50).nli.values()  # the head needs all dimensions
    assert len(fitted.correct) == 12


def test_a_label_that_the_head_does_not_know_is_named(table_model):
    vectors, data = separable(30)
    strange = NliSet("strange", ["maybe", *data.labels[1:]], data.premises, data.hypotheses)
    for options in ({"head": Head()}, {"train": data}):
        with pytest.raises(InputError, match=r"strange: .* has no label 'maybe'; its labels are '"):
            evaluate_nli(table_model(vectors), strange, **options)


def test_equal_labels_are_refused():
    with pytest.raises(InputError, match="alike: every label is 'yes'; at least two different labels are needed"):
        NliSet("alike", ["yes"] * 6, list("abcdef"), list("ghijkl"))


def test_too_few_premises_for_folds_are_refused(table_model):
    data = NliSet("few", ["yes", "no"], ["p", "p"], ["a", "b"])
    with pytest.raises(InputError, match="fewer than 5 premises"):
        evaluate_nli(table_model({"p": (1, 0), "a": (1, 1), "b": (0, 1)}), data)


@pytest.mark.parametrize("alone", [("p0",), ("p0", "p5")])
def test_a_label_whose_rows_are_all_in_one_fold_is_refused(table_model, alone):
    """The premises p0 and p5 share a fold; a head would be fitted on the other folds, which have a single class."""
    premises = [f"p{row % 6}" for row in range(12)]
    labels = ["no" if premise in alone else "yes" for premise in premises]
    model = table_model({})
    data = NliSet("lopsided", labels, premises, [f"h{row}" for row in range(12)])
    with pytest.raises(InputError, match=rf"lopsided: .* label 'no' share {len(alone)} of 6 premises.*--nli-train"):
        evaluate_nli(model, data)
    assert model.encoded == []


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (HEADER + "yes\ta\n", "n.tsv:2: 2 fields, expected 3"),
        (HEADER + "yes\ta\tb\n \ta\tb\n", "n.tsv:3: the label is empty"),
        (HEADER + "yes\ta\tb\nyes\ta\tc\n", "n.tsv: every label is 'yes'"),
    ],
)
def test_a_malformed_file_is_refused_by_line(write, content, said):
    with pytest.raises(InputError) as error:
        load_nli(write("n.tsv", content))
    assert said in str(error.value)
