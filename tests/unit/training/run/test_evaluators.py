"""What runs are measured on."""

from __future__ import annotations

import json

import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from twinvec import Encoder
from twinvec.errors import ConfigurationError, DocumentError
from twinvec.evaluation.sts import evaluate_sts, load_sts
from twinvec.training.run.evaluators import cross_encoder_measure, encoder_measure
from twinvec.training.settings import Evaluation


def test_a_negative_that_is_a_positive_in_other_case_is_none(tmp_path):
    row = {"anchor": "a", "positive": "the text", "negatives": ["The  Text"]}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(DocumentError, match="has no negatives"):
        cross_encoder_measure(None, Evaluation(pairs=tmp_path / "dev.jsonl"), tmp_path / "cache")


@pytest.mark.parametrize("measure", [encoder_measure, cross_encoder_measure])
def test_one_scored_pair_has_no_correlation(tmp_path, measure):
    (tmp_path / "dev.tsv").write_text("score\tsentence1\tsentence2\n1\ta\tb\n")
    with pytest.raises(DocumentError, match=r"dev\.tsv: has one row, but a correlation of scores needs at least two"):
        measure(None, Evaluation(sts=tmp_path / "dev.tsv"), tmp_path / "cache")


def test_a_single_positive_leaves_nothing_to_measure(tmp_path):
    row = {"anchor": "a", "positive": "b"}
    (tmp_path / "dev.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({**row, "anchor": "c"}) + "\n")
    with pytest.raises(DocumentError, match=r"dev\.jsonl: all rows have the same positive, so each anchor finds it"):
        encoder_measure(None, Evaluation(pairs=tmp_path / "dev.jsonl"), tmp_path / "cache")


def test_negatives_of_another_name_are_told_from_none(tmp_path):
    rows = [{"anchor": "a", "positive": each, "negative": "c"} for each in ("b", "d")]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    evaluation = Evaluation(pairs=tmp_path / "dev.jsonl")
    with pytest.raises(ConfigurationError, match=r"dev\.jsonl: .*'columns: \{negatives: negative\}' uses it"):
        cross_encoder_measure(None, evaluation, tmp_path / "cache")
    assert encoder_measure(None, evaluation, tmp_path / "cache"), "among positives alone"


def test_correlations_are_those_of_evaluate(tmp_path, tiny_model):
    """Texts that are equal but for their case make ties, between which the order of sums would decide."""
    words = ("dogs", "rain", "money", "music", "bread")
    pairs = [(word, word.upper() if n % 2 else f"{word} and {words[n % 5]}") for n in range(8) for word in words]
    rows = [f"{n % 6}\t{first} {n}\t{second} {n}\n" for n, (first, second) in enumerate(pairs)]
    (tmp_path / "dev.tsv").write_text("score\tsentence1\tsentence2\n" + "".join(rows))
    folder = tiny_model("bert", normalize=False)
    model = SentenceTransformer(str(folder), device="cpu")
    found = encoder_measure(model, Evaluation(sts=tmp_path / "dev.tsv"), tmp_path / "cache")()
    figures = evaluate_sts(Encoder(folder, engine="torch"), load_sts(tmp_path / "dev.tsv")).figures
    assert found == pytest.approx({"sts.spearman": figures["spearman"], "sts.pearson": figures["pearson"]}, abs=1e-4)
    cosines = model.similarity_pairwise(*(model.encode([row.split("\t")[n] for row in rows]) for n in (1, 2)))
    exact = spearmanr([n % 6 for n in range(len(rows))], cosines).statistic
    assert abs(found["sts.spearman"] - 100 * exact) > 0.01, "the ties are to matter"


def test_a_column_that_the_files_lack_is_named(tmp_path):
    (tmp_path / "dev.jsonl").write_text('{"question": "a", "answer": "b"}\n')
    evaluation = Evaluation(pairs=tmp_path / "dev.jsonl", columns={"anchor": "asked"})
    with pytest.raises(ConfigurationError, match=r"dev\.jsonl: has no column 'asked' for 'anchor'; .*\(columns: \{"):
        encoder_measure(None, evaluation, tmp_path / "cache")
