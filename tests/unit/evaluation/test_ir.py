"""Retrieval measures of models and retrievers, and what becomes of ties, own documents and reranking."""

from __future__ import annotations

import re
from dataclasses import replace

import ir_measures
import numpy as np
import pytest

from twinvec import MaxSimReranker, MemoryIndex
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.bias import load_winobias
from twinvec.evaluation.ir import (
    as_run,
    bm25_index,
    compare_ir,
    evaluate_ir,
    evaluate_retriever,
    measure_ir,
)
from twinvec.evaluation.measures import read_run, write_run
from twinvec.evaluation.nli import load_nli
from twinvec.evaluation.pairs import load_labelled_pairs, load_questions, load_triplets
from twinvec.evaluation.reranking import evaluate_stages, rerank_result
from twinvec.evaluation.serving import evaluate_forms
from twinvec.evaluation.sts import StsSet, evaluate_sts, load_sts
from twinvec.retrieval.base import Hit
from twinvec.retrieval.documents import Document

FAST = {"resamples": 50}


@pytest.fixture
def small(beir):
    return load_beir(beir)


def test_the_default_model_finds_what_is_judged_relevant(remembering, small):
    result = evaluate_ir(remembering, small, **FAST)
    assert result.figures["recall@10"] == 100
    assert result.measured.per_query["mrr@10"].tolist() == [100, 50, 100]  # "pets" brings dogs before cats
    assert result.figures["queries"] == 3
    assert list(result.run["q1"])[:2] == ["moon", "tides"]
    assert result.interval is not None
    assert result.interval.low <= result.figures["ndcg@10"] <= result.interval.high


def test_a_retriever_over_the_same_vectors_has_the_same_figures(encoder, remembering, small):
    index = MemoryIndex(encoder, small.documents)
    model = evaluate_ir(remembering, small, **FAST)
    retriever = evaluate_retriever(index, small, mode="dense", **FAST)
    assert retriever.figures == pytest.approx(model.figures)
    for query, hits in model.run.items():
        assert retriever.run[query] == pytest.approx(hits, abs=1e-5)


def test_no_measure_is_refused_by_name(encoder, remembering, small):
    index = MemoryIndex(encoder, small.documents)
    for evaluate in (
        lambda: evaluate_ir(remembering, small, measures=[]),
        lambda: evaluate_retriever(index, small, measures=[]),
        lambda: measure_ir({"q1": {"moon": 1.0}}, small, measures=[]),
    ):
        with pytest.raises(ConfigurationError, match="no measure is named; the default is ndcg@10"):
            evaluate()


@pytest.mark.parametrize("depth", ["10", None, 1.5, True, -1, [10]], ids=repr)
def test_a_depth_that_is_no_number_is_named(encoder, remembering, small, depth):
    index = MemoryIndex(encoder, small.documents)
    for evaluate in (
        lambda: evaluate_ir(remembering, small, depth=depth),
        lambda: evaluate_retriever(index, small, depth=depth),
        lambda: measure_ir({"q1": {"moon": 1.0}}, small, depth=depth),
    ):
        with pytest.raises(ConfigurationError, match=f"depth must be .*, got {re.escape(repr(depth))}"):
            evaluate()


def test_graded_ndcg_equals_that_of_ir_measures_on_the_written_run(tmp_path, remembering, small):
    result = evaluate_ir(remembering, small, **FAST)
    path = tmp_path / "run.trec"
    write_run(result.run, path)
    qrels = [ir_measures.Qrel(q, d, score) for q, judged in small.qrels.items() for d, score in judged.items()]
    assert {qrel.relevance for qrel in qrels} == {1, 2}
    by_hand = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, ir_measures.read_trec_run(str(path)))
    assert result.figures["ndcg@10"] == pytest.approx(100 * by_hand[ir_measures.nDCG @ 10], abs=1e-9)
    assert measure_ir(read_run(path), small, **FAST).figures == pytest.approx(result.figures)


def test_a_querys_own_document_is_left_out_unless_it_is_judged_relevant():
    documents = [Document(name, name) for name in ("a", "b", "c")]
    data = BeirSet("own", documents, {"a": "a", "b": "b"}, {"a": {"c": 1}, "b": {"b": 1}})
    run = {"a": {"a": 1.0, "c": 0.9}, "b": {"b": 1.0, "c": 0.5}}
    result = measure_ir(run, data, measures=["mrr@10"], **FAST)
    assert result.run == {"a": {"c": 0.9}, "b": {"b": 1.0, "c": 0.5}}
    assert result.measured.per_query["mrr@10"].tolist() == [100, 100]


def test_the_search_goes_one_deeper_so_that_the_own_document_takes_no_place(table_model):
    vectors = {"same": (1, 0), "near": (0.9, 0.1), "far": (0, 1)}
    documents = [Document("q", "same"), Document("d1", "near"), Document("d2", "far")]
    data = BeirSet("own", documents, {"q": "same"}, {"q": {"d1": 1}})
    result = evaluate_ir(table_model(vectors), data, measures=["recall@1"])
    assert result.figures == {"recall@1": 100, "queries": 1}
    assert result.interval is None  # one query has none


def test_a_run_keeps_the_order_of_hits_whatever_their_scores():
    hits = [Hit("z", "", 0.5), Hit("a", "", 0.5), Hit("m", "", 0.7), Hit("a", "", 0.1)]
    run = as_run({"q": hits})["q"]
    assert sorted(run, key=lambda name: run[name], reverse=True) == ["z", "a", "m"]
    assert len({np.float32(score) for score in run.values()}) == 3


def test_words_alone_are_the_baseline(small):
    result = evaluate_retriever(bm25_index(small.documents), small, mode="sparse", **FAST)
    assert next(iter(result.run["q1"])) == "moon"
    assert result.figures["queries"] == 3


def test_reranking_is_measured_stage_by_stage(encoder, small):
    index = MemoryIndex(encoder, small.documents)
    stages = evaluate_stages(index, MaxSimReranker(encoder, mix=1.0), small, candidates=2, mode="sparse", **FAST)
    assert list(stages) == ["retrieved", "reranked"]
    for query, hits in stages["retrieved"].run.items():
        assert set(stages["reranked"].run[query]) == set(hits)  # the same candidates
    reverse = evaluate_stages(index, Reverse(), small, candidates=5, mode="dense", **FAST)
    assert reverse["reranked"].figures["mrr@10"] < reverse["retrieved"].figures["mrr@10"]


def test_a_result_is_reranked_as_its_hits_would_be(encoder, remembering, small):
    reranker = MaxSimReranker(encoder, mix=1.0)
    before = evaluate_ir(remembering, small, measures=["ndcg@3"], depth=4, **FAST)
    after = rerank_result(before, reranker, candidates=3, **FAST)
    index = MemoryIndex(encoder, small.documents)
    direct = evaluate_stages(index, reranker, small, candidates=3, measures=["ndcg@3"], mode="dense", **FAST)
    assert after.result.figures == pytest.approx(direct["reranked"].figures)
    assert after.gain.difference == pytest.approx(after.result.figures["ndcg@3"] - before.figures["ndcg@3"])
    one = replace(small, queries={"q1": small.queries["q1"]}, qrels={"q1": small.qrels["q1"]})
    assert rerank_result(evaluate_ir(remembering, one, **FAST), reranker, **FAST).gain is None


def test_hits_behind_the_candidates_follow_in_their_order():
    documents = [Document(f"d{place}", f"text {place}") for place in range(10)]
    judged = {f"d{place}": 1 for place in (2, 5, 6, 7)}
    data = BeirSet("deep", documents, {"q": "query", "r": "query"}, {"q": judged, "r": judged})
    run = {query: {each.id: 10.0 - place for place, each in enumerate(documents)} for query in data.queries}
    before = measure_ir(run, data, measures=["recall@10", "mrr@10"], **FAST)
    after = rerank_result(before, Reverse(), candidates=3, **FAST).result
    assert list(after.run["q"]) == ["d2", "d1", "d0", *(f"d{place}" for place in range(3, 10))]
    assert after.figures["recall@10"] == before.figures["recall@10"] == 100
    assert after.figures["mrr@10"] == 100


@pytest.mark.parametrize("own", ["q", "elsewhere"])
def test_the_reranker_gets_the_candidates_that_are_asked_for_and_not_the_own_document(own):
    """The search returns one hit more than asked: it replaces the query's own document, or else it is left out."""
    documents = [Document(name, f"text of {name}") for name in ("a", own, "b", "c", "d")]
    given = []

    class Everything:
        def search(self, query, limit=10, filter=None):
            return [Hit(each.id, each.text, 1.0) for each in documents][:limit]

    class Asked:
        def rerank(self, query, hits, limit=None):
            given.append([hit.id for hit in hits])
            return list(hits)

    data = BeirSet("own", documents, {"q": "query"}, {"q": {"b": 1}})
    stages = evaluate_stages(Everything(), Asked(), data, candidates=2, measures=["recall@10"], **FAST)
    candidates = {"q": ["a", "b"], "elsewhere": ["a", "elsewhere"]}[own]
    assert given == [candidates]
    assert [list(stage.run["q"]) for stage in stages.values()] == [candidates, candidates]


class Reverse:
    """A reranker that prefers what came last."""

    def rerank(self, query, hits, limit=None):
        return [replace(hit, score=-float(rank)) for rank, hit in enumerate(reversed(hits))]


def test_a_system_does_not_differ_from_itself(remembering, small):
    result = evaluate_ir(remembering, small, **FAST)
    test = compare_ir(result, result, "ndcg@10", **FAST)
    assert (test.difference, test.p_value) == (0, 1)


def test_results_of_different_queries_are_not_compared():
    first, second = (
        measure_ir({}, BeirSet("s", DOCUMENTS, {"q": "a", query: "b"}, {"q": {"1": 1}, query: {"2": 1}}), **FAST)
        for query in ("r", "s")
    )
    with pytest.raises(ConfigurationError, match="the results are of different queries"):
        compare_ir(first, second)


def test_the_documents_of_a_set_may_come_from_an_iterator():
    data = BeirSet("s", iter(DOCUMENTS), {"q": "moon"}, {"q": {"2": 1}})
    assert data.documents == DOCUMENTS


DOCUMENTS = [Document("1", "cats sleep"), Document("2", "the moon")]


@pytest.mark.parametrize(
    ("documents", "queries", "qrels", "said"),
    [
        (DOCUMENTS, {"q": "moon"}, {"q": {"3": 1}}, "query 'q': the document '3' is not among the documents"),
        (DOCUMENTS, {"q": "moon"}, {"Q": {"2": 1}}, "the judged query 'Q' is not among the queries"),
        (DOCUMENTS, {"q": "moon"}, {"q": {"2": 0}}, "no judgement is above 0"),
        (DOCUMENTS, {"q": "moon"}, {"q": {2: 1}}, "the id of a document must be a string, got 2; write str"),
        (DOCUMENTS, {7: "moon"}, {7: {"2": 1}}, "the id of a query must be a string, got 7; write str"),
        ([Document(2, "moon")], {"q": "moon"}, {"q": {2: 1}}, "the id of a document must be a string, got 2"),
        (
            DOCUMENTS,
            {"q": "moon"},
            {"q": {"2": 1.0}},
            "the relevance of '2' must be a whole number, such as 1, got 1.0",
        ),
        (DOCUMENTS, {"q": "moon"}, {"q": {"2": True}}, "must be a whole number"),
        (DOCUMENTS, {"q": "moon"}, {"q": {"2": 10**13}}, "document '2': the relevance 10000000000000 is above 1,000,0"),
        (DOCUMENTS, {"q": "moon"}, {"q": ["2"]}, "expected a mapping of document ids to relevances"),
        ([("1", "cats")], {"q": "moon"}, {"q": {"1": 1}}, "document 0: expected a Document(id, text)"),
        ([*DOCUMENTS, DOCUMENTS[0]], {"q": "moon"}, {"q": {"1": 1}}, "document 2: the id '1' is used twice"),
        (DOCUMENTS, {"q": None}, {"q": {"1": 1}}, "query 'q': expected a string"),
        (DOCUMENTS, ["moon"], {"q": {"1": 1}}, "queries: expected a mapping by query ids, got list"),
    ],
)
def test_a_set_made_by_hand_is_checked_like_files(documents, queries, qrels, said):
    with pytest.raises(InputError, match=re.escape(said)) as refused:
        BeirSet("made", documents, queries, qrels)
    assert str(refused.value).startswith("made: ")


def test_sets_that_cannot_be_searched(remembering):
    made = BeirSet("made", DOCUMENTS, {"q": "moon"}, {"q": {"2": np.int64(1)}})
    assert evaluate_ir(remembering, made, measures=["mrr@10"], **FAST).figures["mrr@10"] > 0
    with pytest.raises(InputError, match="made: no queries"):
        evaluate_ir(remembering, replace(made, queries={}))
    with pytest.raises(InputError, match="made: no documents"):
        evaluate_ir(remembering, replace(made, documents=[]))
    with pytest.raises(InputError, match="data: expected a BeirSet"):
        evaluate_ir(remembering, {"q": "moon"})
    with pytest.raises(InputError, match="made: no queries"):
        evaluate_retriever(MemoryIndex(remembering, DOCUMENTS), replace(made, queries={}))


@pytest.mark.parametrize("model", [None, "default", 5])
def test_what_is_no_model_is_refused(small, model):
    pairs, forms = StsSet("made", ["a", "b"], ["a", "c"], np.array([1.0, 0.0])), (evaluate_ir, evaluate_forms)
    for call, given in (*((each, small) for each in forms), (evaluate_sts, pairs)):
        with pytest.raises(ConfigurationError, match=r"model: expected a model, .*Encoder\("):
            call(model, given)
    with pytest.raises(ConfigurationError, match="retriever: expected a retriever"):
        evaluate_retriever(model, small)


def test_measures_are_a_list(remembering, small):
    for measures, said in (("ndcg@10", r"got one text; write \['ndcg@10'\]"), (10, "expected a list of measures")):
        with pytest.raises(ConfigurationError, match=said):
            evaluate_ir(remembering, small, measures=measures)
        with pytest.raises(ConfigurationError, match=said):
            measure_ir({}, small, measures=measures)


@pytest.mark.parametrize(
    "load", [load_beir, load_sts, load_nli, load_questions, load_triplets, load_labelled_pairs, load_winobias]
)
def test_a_path_is_a_path(load):
    with pytest.raises(ConfigurationError, match="must be a path, got None"):
        load(None)
