"""The same rows give the same figures in sentence-transformers' evaluators."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import (
    BinaryClassificationEvaluator,
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
    TripletEvaluator,
)

from cases import as_sentence_transformers_6_2
from models import build
from twinvec import Encoder
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import evaluate_ir
from twinvec.evaluation.pairs import LabelledPairs, Triplets, evaluate_pairs, evaluate_triplets
from twinvec.evaluation.sts import StsSet, evaluate_sts, load_sts
from twinvec.retrieval.documents import Document

TEXTS = (
    "A cat sleeps on the sofa.",
    "The cat is asleep on a couch.",
    "Two dogs run through the snow.",
    "Dogs are running in winter.",
    "The stock market fell sharply today.",
    "Shares lost value on Monday.",
    "How do I bake bread without yeast?",
    "A recipe for soda bread.",
    "The moon causes the tides.",
    "Astronauts walked on the moon in 1969.",
    "A man plays the guitar.",
    "Somebody makes music on stage.",
)
PAIRS = list(itertools.combinations(TEXTS, 2))
CLOSE = 1e-3  # the same model in two programs


@pytest.fixture(scope="module")
def scores():
    return np.random.default_rng(0).integers(0, 26, len(PAIRS)) / 5


def test_sts(encoder, reference, scores):
    first, second = (list(side) for side in zip(*PAIRS, strict=True))
    compare_sts(encoder, reference, StsSet("made", first, second, scores))


@pytest.mark.slow
@pytest.mark.data
def test_sts_on_real_rows(encoder, reference, data):
    whole = load_sts(data / "sts" / "stsb" / "test.tsv")
    rows = slice(None, None, 8)
    compare_sts(encoder, reference, StsSet("stsb", whole.first[rows], whole.second[rows], whole.gold[rows]))


def compare_sts(encoder, reference, data):
    first, second, scores = data.first, data.second, data.gold
    ours = evaluate_sts(encoder, data, resamples=20).figures
    evaluator = EmbeddingSimilarityEvaluator(
        first, second, scores.tolist(), similarity_fn_names=["cosine", "dot", "euclidean", "manhattan"]
    )
    theirs = evaluator(reference)
    for name in ("cosine", "dot", "euclidean", "manhattan"):
        suffix = "" if name == "cosine" else f"_{name}"
        for figure in ("spearman", "pearson"):
            assert ours[f"{figure}{suffix}"] == pytest.approx(100 * theirs[f"{figure}_{name}"], abs=CLOSE)
            assert 0 < abs(ours[f"{figure}{suffix}"]) < 100


def test_retrieval_with_judgements_of_one_grade(encoder, reference):
    documents = {f"d{row}": text for row, text in enumerate(TEXTS)}
    queries = {"a": "sleeping animals", "b": "finance", "c": "baking", "d": "the moon", "e": "pets in winter"}
    relevant = {"a": {"d0", "d1"}, "b": {"d5", "d4"}, "c": {"d7"}, "d": {"d8", "d9"}, "e": {"d0", "d1"}}
    evaluator = InformationRetrievalEvaluator(
        queries, documents, relevant, mrr_at_k=[10], ndcg_at_k=[10], accuracy_at_k=[1], precision_recall_at_k=[2],
        map_at_k=[10],
    )  # fmt: skip
    theirs = evaluator(reference)
    data = BeirSet(
        "made",
        [Document(name, text) for name, text in documents.items()],
        queries,
        {query: dict.fromkeys(names, 1) for query, names in relevant.items()},
    )
    ours = evaluate_ir(encoder, data, measures=["ndcg@10", "mrr@10", "recall@2", "precision@2"], resamples=20).figures
    assert 50 < ours["ndcg@10"] < 100
    for name in ("ndcg@10", "mrr@10", "recall@2", "precision@2"):
        assert ours[name] == pytest.approx(100 * theirs[f"cosine_{name}"], abs=CLOSE)


@as_sentence_transformers_6_2  # whose best F1 keeps pairs of one score together
def test_labelled_pairs(encoder, reference, scores):
    first, second = (list(side) for side in zip(*PAIRS, strict=True))
    labels = (scores > 2.5).astype(float)
    ours = evaluate_pairs(encoder, LabelledPairs("made", first, second, labels), resamples=50)
    theirs = BinaryClassificationEvaluator(first, second, labels.astype(int).tolist(), similarity_fn_names=["cosine"])(
        reference
    )
    assert ours["average_precision"] == pytest.approx(100 * theirs["cosine_ap"], abs=CLOSE)
    assert ours["accuracy"] == pytest.approx(100 * theirs["cosine_accuracy"], abs=CLOSE)
    assert ours["f1"] == pytest.approx(100 * theirs["cosine_f1"], abs=CLOSE)


@pytest.mark.slow
def test_triplets(encoder, reference):
    anchors, positives, negatives = (list(each) for each in zip(*itertools.combinations(TEXTS, 3), strict=True))
    ours = evaluate_triplets(encoder, Triplets("made", anchors, positives, negatives))
    theirs = TripletEvaluator(anchors, positives, negatives, main_similarity_function="cosine")(reference)
    assert 0 < ours["accuracy"] < 100
    assert ours["accuracy"] == pytest.approx(100 * theirs["cosine_accuracy"], abs=CLOSE)


def test_triplets_with_prompts_of_queries_and_documents(tmp_path):
    prompts = {"query": "find the passage: ", "document": "one that was found, "}
    built = build(tmp_path / "model", "bert", prompts=prompts)
    triplets = [list(each) for each in zip(*itertools.combinations(TEXTS, 3), strict=True)]
    ours = evaluate_triplets(Encoder(built), Triplets("made", *triplets))
    theirs = TripletEvaluator(*triplets, main_similarity_function="cosine")
    expected = theirs(SentenceTransformer(str(built), device="cpu"))
    assert ours["accuracy"] == pytest.approx(100 * expected["cosine_accuracy"], abs=CLOSE)
