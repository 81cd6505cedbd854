"""Every public function of the evaluation names an argument of a wrong type, in an error of twinvec."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec import Document, MemoryIndex
from twinvec.errors import TwinvecError
from twinvec.evaluation import beir, bias, ir, measures, nli, pairs, reranking, serving, statistics, sts, suite, tuning
from twinvec.evaluation.report import comparison
from words import WordEncoder


class Model(WordEncoder):
    def encode(self, texts, *, progress=False):
        return super().encode_document(texts)

    encode_document = encode


class Unchanged:
    stage = "unchanged"

    def rerank(self, query, hits, limit=None):
        return list(hits)


NAMES = range(12)
DOCUMENTS = [Document(f"d{row}", f"word{row % 3} and {row}") for row in NAMES]
QUERIES = {f"q{row}": f"word{row % 3} or {row}" for row in NAMES}
QRELS = {f"q{row}": {f"d{row}": 1} for row in NAMES}
SET = beir.BeirSet("set", DOCUMENTS, QUERIES, QRELS)
RUN = {query: {document.id: 1.0 for document in DOCUMENTS} for query in QUERIES}
SCORED = sts.StsSet("scored", ["a b", "c", "d"], ["a", "c", "e"], [1, 2, 3])
PAIRS = {"name": "pairs", "first": ["a", "b"], "second": ["a", "c"], "labels": [1, 0]}
TRIPLETS = {"name": "triplets", "anchors": ["a", "b"], "positives": ["a", "b"], "negatives": ["c", "d"]}
ROWS = [f"row {row}" for row in NAMES]
INFERENCES = {"name": "inferences", "labels": ["yes", "no"] * 6, "premises": ROWS, "hypotheses": ROWS}
FEW = {"resamples": 10}
INDEX, MODEL = MemoryIndex(WordEncoder(), DOCUMENTS), Model()

TASKS = suite.Tasks(ir={"set": SET}, measures=("mrr@10",))

FUNCTIONS = {
    sts.StsSet: {"name": "made", "first": ["a", "b"], "second": ["c", "d"], "gold": [1, 2]},
    sts.evaluate_sts: {"model": MODEL, "data": SCORED, **FEW},
    sts.spearman: {"values": [1, 2, 3], "gold": [1, 2, 3]},
    sts.pearson: {"values": [1, 2, 3], "gold": [1, 2, 3]},
    sts.pair_similarities: {"first_ND": np.ones((2, 3)), "second_ND": np.ones((2, 3))},
    beir.BeirSet: {"name": "made", "documents": DOCUMENTS, "queries": QUERIES, "qrels": QRELS},
    ir.evaluate_ir: {"model": MODEL, "data": SET, "measures": ["mrr@10"], **FEW},
    ir.evaluate_retriever: {"retriever": INDEX, "data": SET, "measures": ["mrr@10"], **FEW},
    ir.measure_ir: {"run": RUN, "data": SET, "measures": ["mrr@10"], **FEW},
    ir.search_all: {"retriever": INDEX, "data": SET, "limit": 3},
    ir.as_run: {"found": {"q0": INDEX.search("word0", 3)}},
    measures.measure_run: {"run": RUN, "qrels": QRELS, "measures": ["mrr@10"]},
    pairs.LabelledPairs: PAIRS,
    pairs.Triplets: TRIPLETS,
    pairs.evaluate_pairs: {"model": MODEL, "data": pairs.LabelledPairs(**PAIRS), **FEW},
    pairs.evaluate_triplets: {"model": MODEL, "data": pairs.Triplets(**TRIPLETS)},
    nli.NliSet: INFERENCES,
    nli.evaluate_nli: {"model": MODEL, "data": nli.NliSet(**INFERENCES), **FEW},
    reranking.evaluate_stages: {"retriever": INDEX, "reranker": Unchanged(), "data": SET, "candidates": 5, **FEW},
    serving.evaluate_served: {"retriever": INDEX, "data": SET, **FEW},
    serving.evaluate_forms: {"model": MODEL, "data": SET, **FEW},
    tuning.tune: {"retriever": INDEX, "data": SET, "measure": "mrr@10", **FEW},
    statistics.paired_test: {"first": [1, 2, 3], "second": [1, 2, 4], **FEW},
    suite.Tasks: {
        "sts": {"scored": SCORED},
        "ir": {"set": SET},
        "questions": {"set": SET},
        "nli": {"inferences": nli.NliSet(**INFERENCES)},
        "pairs": {"pairs": pairs.LabelledPairs(**PAIRS)},
        "triplets": {"triplets": pairs.Triplets(**TRIPLETS)},
        "measures": ["mrr@10"],
        "candidates": 5,
    },
    suite.evaluate: {"system": "bm25", "tasks": TASKS, "precision": "auto", **FEW},
}
REFUSED = {  # these need more than the test has; they refuse all of it
    sts.compare_sts: {"first": None, "second": None},
    ir.compare_ir: {"first": None, "second": None},
    reranking.rerank_result: {"result": None, "reranker": Unchanged()},
    serving.evaluate_collection: {"collection": None, "data": SET},
    serving.evaluate_indexes: {"collection": None, "data": SET},
    serving.evaluate_reranked: {"collection": INDEX, "reranker": Unchanged(), "before": None},
    tuning.tune_by_documents: {"collection": None},
    bias.evaluate_winogender: {"model": MODEL, "data": None},
    bias.evaluate_winobias: {"model": MODEL, "data": None},
    comparison.compare: {"systems": None, "tasks": TASKS},
    comparison.write_report: {"comparison": None, "folder": "report"},
}
CASES = [
    (function, argument) for function, arguments in FUNCTIONS.items() for argument in arguments if argument != "name"
]
WRONG = (None, 3.5, [None], ["a", 1], {1: 2}, {"q0": [("d0", 1.0)]}, {"q0": None}, {"q0": {"d0": "high"}}, object())


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_arguments_of_these_tests_are_right(function):
    function(**FUNCTIONS[function])


@pytest.mark.parametrize(
    ("function", "argument"), CASES, ids=[f"{function.__name__}-{argument}" for function, argument in CASES]
)
def test_an_argument_of_a_wrong_type_is_named(function, argument):
    named = argument.removesuffix("_ND").removesuffix("s")  # "measure 'a' is not one of ..."
    for wrong in WRONG:
        with pytest.raises(TwinvecError, match=f"{named}|quer|judge|score"):
            function(**{**FUNCTIONS[function], argument: wrong})


@pytest.mark.parametrize("function", REFUSED, ids=lambda function: function.__name__)
def test_a_result_or_a_collection_of_a_wrong_type_is_named(function):
    arguments = REFUSED[function]
    wrong = next(name for name, value in arguments.items() if value is None)
    with pytest.raises(TwinvecError, match=wrong):
        function(**arguments)


@pytest.mark.parametrize("name", ["nli_train", "winogender", "winobias", "rerank"])
def test_an_optional_task_of_a_wrong_type_is_named(name):
    for wrong in (3.5, [None], {1: 2}, object()):
        with pytest.raises(TwinvecError, match=name):
            suite.Tasks(**{name: wrong})


@pytest.mark.parametrize("name", ["sts", "ir", "questions", "nli", "pairs", "triplets", "measures"])
def test_files_and_measures_are_lists(name):
    for wrong in (None, 3.5, "a.tsv", b"a.tsv", object(), ["mrr@10", 1]):
        with pytest.raises(TwinvecError, match=name.removesuffix("s")):
            suite.load_tasks(**{name: wrong})


@pytest.mark.parametrize("wrong", ["\ud800.tsv", "nul\0.tsv", "", None, 3.5])
def test_a_path_that_no_file_can_have_is_refused(wrong):
    for name in ("sts", "ir", "questions", "nli", "pairs", "triplets"):
        with pytest.raises(TwinvecError, match=rf"{name}\[0\]"):
            suite.load_tasks(**{name: [wrong]})
    for name in ("nli_train", "winogender", "winobias") if wrong is not None else ():
        with pytest.raises(TwinvecError, match=name):
            suite.load_tasks(**{name: wrong})
    with pytest.raises(TwinvecError, match="folder"):
        comparison.write_report(comparison.Comparison([], []), wrong)


@pytest.mark.parametrize("systems", ["bm25", 3.5, ["bm25", None], ["bm25", "\udcff"], [["bm25"], "bm25"], {1: 2}])
def test_systems_to_compare_are_a_list_of_names(systems):
    with pytest.raises(TwinvecError, match="systems"):
        comparison.compare(systems, TASKS)


def test_ids_of_a_run_are_strings():
    class Id(str):
        __slots__ = ()

    assert measures.measure_run({Id("q0"): {Id("d0"): 1}}, {"q0": {"d0": 1}}, ["mrr@10"]).figures == {"mrr@10": 100}
    for wrong in ({None: {"d0": 1}}, {"q0": {None: 1}}, {"q0": {"d0": 1, 2: 1}}):
        with pytest.raises(TwinvecError, match="must be a string"):
            measures.measure_run(wrong, {"q0": {"d0": 1}}, ["mrr@10"])


def test_an_integer_beyond_every_float_is_no_score():
    with pytest.raises(TwinvecError, match="expected numbers as scores"):
        measures.check_run({"q": {"d": 10**400}})
    with pytest.raises(TwinvecError, match="huge: expected a list of scores"):
        sts.StsSet("huge", ["a", "b"], ["c", "d"], [1, 10**400])


def test_samples_of_an_interval_are_numbers():
    with pytest.raises(TwinvecError, match="samples: expected a list of numbers"):
        statistics.interval([1, "a"])


def test_columns_of_sets_made_by_hand_have_equal_lengths():
    for kind, columns, shorter in (
        (pairs.LabelledPairs, PAIRS, "second"),
        (pairs.Triplets, TRIPLETS, "negatives"),
        (nli.NliSet, INFERENCES, "labels"),
    ):
        with pytest.raises(TwinvecError, match=f"differ in their numbers of rows: .*1 in {shorter}"):
            kind(**{**columns, shorter: ["a"]})
        with pytest.raises(TwinvecError, match="no rows"):
            kind(**{name: [] if name != "name" else "none" for name in columns})
